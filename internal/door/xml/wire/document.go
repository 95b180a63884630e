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

// ElementsMax is how many XML elements a request may have; a reply has as many as there
// are executions.
const ElementsMax = 100_000

// Further limits of a document. What the protocol needs is far below.
const (
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
	frame    []byte
	root     *element
	open     []*element // from the root inwards
	elements int        // how many more there may be
}

// parseDocument reads a whole document of up to elements elements and returns its
// root. The error says why the document is malformed.
func parseDocument(frame []byte, elements int) (*element, error) {
	bytesGiven := len(frame)
	frame = bytes.TrimPrefix(frame, []byte("\ufeff"))
	if !utf8.Valid(frame) {
		return nil, errors.New("the document is not UTF-8")
	}
	p := &parser{frame: frame, elements: elements}
	decoder := xml.NewDecoder(bytes.NewReader(frame))
	// Which encodings may be declared is for declare to say.
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
		if err := p.take(token, begin, decoder.InputOffset()); err != nil {
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

// explain returns the decoder's error about a document of so many bytes. A document that ends within a token is an
// unexpected EOF to the decoder. That reads as if the connection had ended; mostly the frame's length is too small.
func (p *parser) explain(err error, bytesGiven int) error {
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok && strings.HasPrefix(syntax.Msg, "unexpected EOF") {
		return p.cutShort(bytesGiven)
	}
	return err
}

// cutShort returns the error of a document that ends too soon, after so many bytes.
func (p *parser) cutShort(bytesGiven int) error {
	if n := len(p.open); n > 0 {
		return fmt.Errorf("the document ends after %d bytes, and <%s> is not closed", bytesGiven, clip(p.open[n-1].name))
	}
	return fmt.Errorf("the document ends after %d bytes, within a tag or a comment", bytesGiven)
}

// take adds one token, which stands in the frame from begin to end.
func (p *parser) take(token xml.Token, begin, end int64) error {
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
		return errors.New("document type declarations are not taken")
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

// declare judges the XML declaration: it stands at the very start, says version
// 1.0, and names UTF-8 or US-ASCII if it names an encoding.
func (p *parser) declare(t xml.ProcInst, begin int64) error {
	if begin != 0 || t.Target != "xml" {
		return errors.New("an XML declaration stands only at the start of a document")
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

// declared takes white space and name="value" off the front of a declaration. ok
// is false if something else is there, and then rest is all of s.
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

// whiteSpace is what XML takes for it.
const whiteSpace = " \t\r\n"

// isBlank reports whether there is nothing but white space.
func isBlank(b []byte) bool { return len(bytes.Trim(b, whiteSpace)) == 0 }
