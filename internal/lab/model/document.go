package model

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is an element of a document. Names are as written, including a namespace prefix.
type node struct {
	name     string
	attrs    [][2]string // name and value
	text     string      // all character data directly inside the element
	children []*node
}

// get returns an attribute's value, or "" if the attribute is missing.
func (n *node) get(name string) string {
	for _, a := range n.attrs {
		if a[0] == name {
			return a[1]
		}
	}
	return ""
}

func (n *node) has(name string) bool {
	return slices.ContainsFunc(n.attrs, func(a [2]string) bool { return a[0] == name })
}

// only reports whether n has no attributes other than names.
func (n *node) only(names ...string) bool {
	for _, a := range n.attrs {
		if !slices.Contains(names, a[0]) {
			return false
		}
	}
	return true
}

// trim removes XML's white space at both ends.
func trim(s string) string { return strings.Trim(s, " \t\r\n") }

// empty reports whether n contains neither elements nor text.
func (n *node) empty() bool { return len(n.children) == 0 && trim(n.text) == "" }

func written(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

// parse reads a document and returns its root, or an error if it is malformed (section 1). The raw tokens
// of encoding/xml do not check that end tags match, that attributes are unique, that there is exactly one
// root, or where a declaration may appear and what it may contain: parse checks these.
func parse(doc []byte) (*node, error) {
	doc = bytes.TrimPrefix(doc, []byte("\ufeff"))
	if !utf8.Valid(doc) {
		return nil, errors.New("not UTF-8")
	}
	d := xml.NewDecoder(bytes.NewReader(doc))
	// declared checks the encoding, so any encoding passes here.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	above := &node{} // parent of the root element
	stack := []*node{above}
	for {
		at := d.InputOffset()
		token, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if !characters(token, string(doc[at:d.InputOffset()])) {
			return nil, errors.New("reference to no character")
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			n, err := element(t)
			if err != nil {
				return nil, err
			}
			top.children = append(top.children, n)
			stack = append(stack, n)
		case xml.EndElement:
			if top == above || top.name != written(t.Name) {
				return nil, errors.New("end tag")
			}
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.text += string(t)
		case xml.Directive:
			return nil, errors.New("directive")
		case xml.ProcInst:
			if strings.EqualFold(t.Target, "xml") && (t.Target != "xml" || at != 0 || !declared(string(t.Inst), doc)) {
				return nil, errors.New("declaration")
			}
		}
	}
	if len(stack) != 1 || len(above.children) != 1 || trim(above.text) != "" {
		return nil, errors.New("not one root")
	}
	return above.children[0], nil
}

// reference matches a character reference by number.
var reference = regexp.MustCompile(`&#(x?)([0-9A-Fa-f]+);`)

// characters reports whether every reference in a token's text names a valid character. The decoder has rejected
// all invalid ones except halves of surrogate pairs.
func characters(token xml.Token, text string) bool {
	switch token.(type) {
	case xml.StartElement, xml.CharData:
	default:
		return true
	}
	if strings.HasPrefix(text, "<![CDATA[") {
		return true
	}
	for _, match := range reference.FindAllStringSubmatch(text, -1) {
		base := 10
		if match[1] != "" {
			base = 16
		}
		if n, err := strconv.ParseInt(match[2], base, 64); err == nil && 0xd800 <= n && n <= 0xdfff {
			return false
		}
	}
	return true
}

func element(t xml.StartElement) (*node, error) {
	n := &node{name: written(t.Name)}
	for _, a := range t.Attr {
		if n.has(written(a.Name)) {
			return nil, errors.New("attribute twice")
		}
		n.attrs = append(n.attrs, [2]string{written(a.Name), a.Value})
	}
	return n, nil
}

// declaration matches the text between "<?xml " and "?>". One of its groups is the encoding.
var declaration = regexp.MustCompile(`^version\s*=\s*(?:"1\.0"|'1\.0')` +
	`(?:\s+encoding\s*=\s*(?:"((?i)utf-8|us-ascii)"|'((?i)utf-8|us-ascii)'))?` +
	`(?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))?\s*$`)

// declared reports whether text is a valid XML declaration for doc.
func declared(text string, doc []byte) bool {
	match := declaration.FindStringSubmatch(text)
	if match == nil || strings.Contains(text, "\f") { // \s matches a form feed, which XML does not allow
		return false
	}
	ascii := !slices.ContainsFunc(doc, func(b byte) bool { return b >= utf8.RuneSelf })
	return ascii || !strings.EqualFold(match[1]+match[2], "us-ascii")
}
