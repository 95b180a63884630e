package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// ElementsMax is the largest number of XML elements in a request. Replies have no such limit, as they
// contain one element for each execution.
const ElementsMax = 100_000

// Further limits of a request's document, far above what the protocol needs.
const (
	depthMax      = 16
	attributesMax = 32 // maximum number of attributes of an element
)

// element is a parsed XML element. Names are as written, including a namespace prefix.
type element struct {
	name     string
	attrs    []xml.Attr
	text     []byte // all character data directly in the element
	children []*element
}

// attr returns the value of an attribute; ok is false if it is absent.
func (e *element) attr(name string) (value string, ok bool) {
	for _, a := range e.attrs {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value, true
		}
	}
	return "", false
}

// rawName returns a name as it was written, with its prefix.
func rawName(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// parser builds the elements of one document. It makes the checks of XML 1.0 that the raw tokens of
// encoding/xml leave to the caller.
type parser struct {
	frame    []byte
	root     *element
	open     []*element // elements that are not closed yet, outermost first
	elements int        // number of further elements that are allowed
}

// parseDocument parses a document of at most the given number of elements and returns its root. The
// error says why the document is malformed.
func parseDocument(frame []byte, elements int) (*element, error) {
	bytesGiven := len(frame)
	frame = bytes.TrimPrefix(frame, []byte("\ufeff"))
	if !utf8.Valid(frame) {
		return nil, errors.New("the document is not UTF-8")
	}
	p := &parser{frame: frame, elements: elements}
	decoder := xml.NewDecoder(bytes.NewReader(frame))
	// Accept any encoding here: declare checks which one the document declares.
	decoder.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for {
		begin := decoder.InputOffset()
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, p.explain(err, bytesGiven)
		}
		if err := p.add(token, begin, decoder.InputOffset()); err != nil {
			return nil, err
		}
	}
	switch {
	case len(p.open) > 0:
		return nil, p.cutShort(bytesGiven)
	case p.root == nil:
		return nil, errors.New("the document is empty")
	}
	return p.root, nil
}

// explain improves the decoder's error about a document of bytesGiven bytes. For a document that ends within a
// token, the decoder reports an unexpected EOF. That looks as if the connection had ended, but usually the frame's
// length line is too small.
func (p *parser) explain(err error, bytesGiven int) error {
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok && strings.HasPrefix(syntax.Msg, "unexpected EOF") {
		return p.cutShort(bytesGiven)
	}
	return err
}

// cutShort returns the error for a document that ends too early, after bytesGiven bytes.
func (p *parser) cutShort(bytesGiven int) error {
	if n := len(p.open); n > 0 {
		return fmt.Errorf("the document ends after %d bytes, and <%s> is not closed", bytesGiven, clip(p.open[n-1].name))
	}
	return fmt.Errorf("the document ends after %d bytes, within a tag or a comment", bytesGiven)
}

// add processes one token, which is at frame[begin:end].
func (p *parser) add(token xml.Token, begin, end int64) error {
	if err := checkReferences(token, p.frame[begin:end]); err != nil {
		return err
	}
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
		return errors.New("document type declarations are not allowed")
	}
	return nil
}

func (p *parser) start(t xml.StartElement) error {
	p.elements--
	e := &element{name: rawName(t.Name), attrs: t.Attr}
	switch {
	case p.elements < 0:
		return fmt.Errorf("there are more than %d elements in a frame", ElementsMax)
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

// declare checks the XML declaration: it must be at the very start, have version 1.0, and name UTF-8 or
// US-ASCII if it names an encoding.
func (p *parser) declare(t xml.ProcInst, begin int64) error {
	if begin != 0 || t.Target != "xml" {
		return errors.New("an XML declaration is allowed only at the start of a document")
	}
	rest := " " + string(t.Inst)
	version, rest, _ := declared(rest, "version")
	encoding, rest, encoded := declared(rest, "encoding")
	standalone, rest, alone := declared(rest, "standalone")
	switch {
	case version != "1.0":
		return errors.New("the XML declaration does not say version 1.0")
	case !isBlank([]byte(rest)) || alone && standalone != "yes" && standalone != "no":
		return fmt.Errorf("the XML declaration %q is malformed", clip(string(t.Inst)))
	case !encoded || strings.EqualFold(encoding, "utf-8"):
		return nil
	case !strings.EqualFold(encoding, "us-ascii"):
		return fmt.Errorf("encoding %q is not UTF-8", clip(encoding))
	case bytes.ContainsFunc(p.frame, func(r rune) bool { return r >= utf8.RuneSelf }):
		return errors.New("the document is declared US-ASCII and is not")
	}
	return nil
}

// declared parses white space and name="value" at the front of a declaration and returns the value and
// the rest. If s begins with something else, ok is false and rest is s.
func declared(s, name string) (value, rest string, ok bool) {
	after, found := strings.CutPrefix(strings.TrimLeft(s, whiteSpace), name)
	after, equals := strings.CutPrefix(strings.TrimLeft(after, whiteSpace), "=")
	after = strings.TrimLeft(after, whiteSpace)
	if !found || !equals || !isBlank([]byte(s[:1])) || after == "" || after[0] != '"' && after[0] != '\'' {
		return "", s, false
	}
	value, rest, closed := strings.Cut(after[1:], after[:1])
	if !closed {
		return "", s, false
	}
	return value, rest, true
}

// whiteSpace holds the characters that XML defines as white space.
const whiteSpace = " \t\r\n"

// isBlank reports whether b is empty or consists of white space.
func isBlank(b []byte) bool { return len(bytes.Trim(b, whiteSpace)) == 0 }
