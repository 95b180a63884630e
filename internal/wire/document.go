package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of a document. Those of the protocol's own documents are far below.
const (
	elementsMax   = 100_000 // in one frame
	depthMax      = 16
	attributesMax = 32 // of one element
)

// element is a parsed XML element, with its names as written: a prefix is a part
// of the name.
type element struct {
	name     string
	attrs    []xml.Attr
	text     []byte // all character data directly in it
	children []*element
}

// attr returns the value of an attribute.
func (e *element) attr(name string) (value string, ok bool) {
	for _, a := range e.attrs {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value, true
		}
	}
	return "", false
}

// rawName returns a name as it was written.
func rawName(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// parser builds the elements of one document. It is as strict as XML 1.0 where
// encoding/xml's raw tokens leave that to their user.
type parser struct {
	decoder  *xml.Decoder
	frame    []byte
	root     *element
	open     []*element
	elements int
}

// parseDocument reads a whole document and returns its root. The error says why
// the document is malformed.
func parseDocument(frame []byte) (*element, error) {
	frame = bytes.TrimPrefix(frame, []byte("\ufeff"))
	if !utf8.Valid(frame) {
		return nil, errors.New("the document is not UTF-8")
	}
	p := &parser{decoder: xml.NewDecoder(bytes.NewReader(frame)), frame: frame}
	// The declaration is judged by declare.
	p.decoder.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for {
		begin := p.decoder.InputOffset()
		token, err := p.decoder.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := p.take(token, begin); err != nil {
			return nil, err
		}
	}
	switch {
	case len(p.open) > 0:
		return nil, fmt.Errorf("<%s> is not closed", p.open[len(p.open)-1].name)
	case p.root == nil:
		return nil, errors.New("the document is empty")
	}
	return p.root, nil
}

// take adds one token that begins at an offset of the frame.
func (p *parser) take(token xml.Token, begin int64) error {
	switch t := token.(type) {
	case xml.StartElement:
		return p.start(t)
	case xml.EndElement:
		return p.end(rawName(t.Name))
	case xml.CharData:
		if len(p.open) > 0 {
			e := p.open[len(p.open)-1]
			e.text = append(e.text, t...)
		} else if !isBlank(t) {
			return errors.New("there is text outside of the root element")
		}
	case xml.ProcInst:
		if strings.EqualFold(t.Target, "xml") {
			return p.declare(t, begin)
		}
	case xml.Directive:
		return errors.New("document type declarations are not taken")
	}
	return nil
}

func (p *parser) start(t xml.StartElement) error {
	p.elements++
	e := &element{name: rawName(t.Name), attrs: t.Attr}
	switch {
	case p.elements > elementsMax:
		return fmt.Errorf("there are more than %d elements in a frame", elementsMax)
	case len(p.open) == depthMax:
		return fmt.Errorf("elements are nested more than %d deep", depthMax)
	case len(e.attrs) > attributesMax:
		return fmt.Errorf("an element has more than %d attributes", attributesMax)
	case len(p.open) == 0 && p.root != nil:
		return errors.New("there is more than one root element")
	}
	for i, a := range e.attrs {
		for _, b := range e.attrs[:i] {
			if a.Name == b.Name {
				return fmt.Errorf("attribute %s is given twice", clip(rawName(a.Name)))
			}
		}
	}
	if len(p.open) == 0 {
		p.root = e
	} else {
		parent := p.open[len(p.open)-1]
		parent.children = append(parent.children, e)
	}
	p.open = append(p.open, e)
	return nil
}

func (p *parser) end(name string) error {
	if len(p.open) == 0 {
		return fmt.Errorf("</%s> closes nothing", clip(name))
	}
	if e := p.open[len(p.open)-1]; e.name != name {
		return fmt.Errorf("<%s> is closed by </%s>", clip(e.name), clip(name))
	}
	p.open = p.open[:len(p.open)-1]
	return nil
}

// declare judges the XML declaration: it stands at the very start, says version
// 1.0, and names UTF-8 or US-ASCII where it names an encoding.
func (p *parser) declare(t xml.ProcInst, begin int64) error {
	if begin != 0 || t.Target != "xml" {
		return errors.New("an XML declaration stands only at the start of a document")
	}
	match := declaration.FindSubmatch(t.Inst)
	if match == nil {
		return fmt.Errorf("the XML declaration %q is malformed, or not of version 1.0", clip(string(t.Inst)))
	}
	switch encoding := string(match[1]); {
	case encoding == "" || strings.EqualFold(encoding, "utf-8"):
		return nil
	case !strings.EqualFold(encoding, "us-ascii"):
		return fmt.Errorf("encoding %q is not UTF-8", clip(encoding))
	}
	for _, c := range p.frame {
		if c >= utf8.RuneSelf {
			return errors.New("the document is declared US-ASCII and is not")
		}
	}
	return nil
}

// declaration is what stands behind <?xml (XML 1.0, productions 23 to 32); its
// group is the name of the encoding.
var declaration = regexp.MustCompile(`^version[ \t\r\n]*=[ \t\r\n]*(?:"1\.0"|'1\.0')` +
	`(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z][A-Za-z0-9._-]*)["'])?` +
	`(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*["'](?:yes|no)["'])?[ \t\r\n]*$`)

// isBlank tells whether there is nothing but XML's white space.
func isBlank(b []byte) bool { return len(bytes.Trim(b, " \t\r\n")) == 0 }
