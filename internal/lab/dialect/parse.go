package dialect

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ParseDoc parses an XML document, within the bounds of a reply. The error is a *Broken: NotXML or
// TooLarge.
func ParseDoc(s string) (*Element, error) {
	in := strings.NewReader(s)
	src := &source{next: in.ReadByte}
	root, err := parse(src)
	if err != nil {
		return nil, broken(err, s)
	}
	if rest := strings.TrimSpace(s[len(s)-in.Len():]); rest != "" {
		return nil, broken(notXML("%q after the end of the document", excerpt(rest)), s)
	}
	return root, nil
}

// source counts the bytes of a document, and fails if it is too large. It is an io.ByteReader so that
// the decoder reads no byte after the document's last.
type source struct {
	next  func() (byte, error)
	size  int64 // bytes of the document read so far
	token int   // bytes since the last token ended
	err   error // why no more bytes can be read
}

// ReadByte returns the document's next byte. The error is that of next, or TooLarge.
func (s *source) ReadByte() (byte, error) {
	if s.err != nil {
		return 0, s.err
	}
	switch {
	case s.size >= ReplyBytesMax:
		s.err = tooLarge("more than %d bytes", ReplyBytesMax)
	case s.token >= TokenBytesMax:
		s.err = tooLarge("a tag or text of more than %d bytes", TokenBytesMax)
	}
	if s.err != nil {
		return 0, s.err
	}
	b, err := s.next()
	if err != nil {
		s.err = err
		return 0, err
	}
	s.size++
	s.token++
	return b, nil
}

// Read reads one byte. The decoder needs an io.Reader, but calls ReadByte.
func (s *source) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := s.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

// tree is a document while it is parsed.
type tree struct {
	root       *Element
	open       []*Element        // the unclosed elements, root first
	text       [][]byte          // for each element of open, its text so far
	names      map[string]string // interned names: a document has few different ones
	elements   int
	attributes int
	kept       int // bytes of names, values and texts kept
}

// parse parses a document up to the end of its root. The error is a *Broken, or that of src.next.
func parse(src *source) (*Element, error) {
	d := xml.NewDecoder(src)
	d.CharsetReader = asIs
	t := tree{names: map[string]string{}}
	for {
		token, err := d.RawToken()
		switch {
		case src.err != nil && !errors.Is(src.err, io.EOF):
			return nil, src.err
		case errors.Is(err, io.EOF) || err != nil && src.err != nil:
			return nil, notXML("it ends in the middle")
		case err != nil:
			return nil, &Broken{Kind: NotXML, Err: err}
		}
		src.token = 0
		if err := t.add(token); err != nil {
			return nil, err
		}
		if t.root != nil && len(t.open) == 0 {
			return t.root, nil
		}
	}
}

// add adds a token to the tree. The error is a *Broken.
func (t *tree) add(token xml.Token) error {
	switch token := token.(type) {
	case xml.StartElement:
		return t.start(token)
	case xml.EndElement:
		return t.end(t.name(token.Name))
	case xml.CharData:
		if last := len(t.open) - 1; last >= 0 {
			t.text[last] = append(t.text[last], token...)
			return t.keep(len(token))
		}
		if s := strings.TrimSpace(strings.TrimPrefix(string(token), "\ufeff")); s != "" {
			return notXML("text outside of the root: %q", excerpt(s))
		}
	case xml.Directive:
		return notXML("it has a document type declaration, or another directive")
	}
	return nil
}

// start opens an element.
func (t *tree) start(token xml.StartElement) error {
	t.elements++
	t.attributes += len(token.Attr)
	switch {
	case len(t.open) == DepthMax:
		return tooLarge("elements nested more than %d deep", DepthMax)
	case t.elements > ElementsMax:
		return tooLarge("more than %d elements", ElementsMax)
	case len(token.Attr) > elementAttributesMax || t.attributes > attributesMax:
		return tooLarge("more than %d attributes of an element, or %d in all", elementAttributesMax, attributesMax)
	}
	e := &Element{Name: t.name(token.Name)}
	if err := t.keep(len(e.Name)); err != nil {
		return err
	}
	if len(token.Attr) > 0 {
		e.Attrs = make([]Attr, 0, len(token.Attr))
	}
	for _, a := range token.Attr {
		name := t.name(a.Name)
		if _, twice := e.Attr(name); twice {
			return notXML("<%s> has attribute %s twice", e.Name, name)
		}
		if err := t.keep(len(name) + len(a.Value)); err != nil {
			return err
		}
		e.Attrs = append(e.Attrs, Attr{name, a.Value})
	}
	if len(t.open) > 0 {
		parent := t.open[len(t.open)-1]
		parent.Children = append(parent.Children, e)
	} else {
		t.root = e
	}
	t.open = append(t.open, e)
	t.text = append(t.text, nil)
	return nil
}

// keep counts n more bytes kept. The error is TooLarge.
func (t *tree) keep(n int) error {
	if t.kept += n; t.kept > keptMax {
		return tooLarge("more than %d bytes of values and texts", keptMax)
	}
	return nil
}

// end closes the innermost open element. It returns an error if that element has another name, or if none is open.
func (t *tree) end(name string) error {
	if len(t.open) == 0 {
		return notXML("</%s> ends nothing", name)
	}
	last := len(t.open) - 1
	e := t.open[last]
	if e.Name != name {
		return notXML("<%s> ends with </%s>", e.Name, name)
	}
	e.Text = string(bytes.TrimSpace(t.text[last]))
	t.open, t.text = t.open[:last], t.text[:last]
	return nil
}

// name returns a name with its prefix, interned.
func (t *tree) name(n xml.Name) string {
	s := n.Local
	if n.Space != "" {
		s = n.Space + ":" + n.Local
	}
	if known, ok := t.names[s]; ok {
		return known
	}
	t.names[s] = s
	return s
}

// asIs returns in unchanged for encodings that servers declare although they write ASCII. The error names any other
// encoding.
func asIs(charset string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(charset) {
	case "us-ascii", "ascii", "utf8", "iso-8859-1", "latin1":
		return in, nil
	}
	return nil, fmt.Errorf("encoding %q is not UTF-8", charset)
}

func notXML(format string, args ...any) *Broken {
	return &Broken{Kind: NotXML, Err: fmt.Errorf(format, args...)}
}

func tooLarge(format string, args ...any) *Broken {
	return &Broken{Kind: TooLarge, Err: fmt.Errorf(format, args...)}
}

// broken returns err as a *Broken, with an excerpt of what arrived. An error of another type becomes a Closed one.
func broken(err error, got string) *Broken {
	var b *Broken
	if !errors.As(err, &b) {
		b = &Broken{Kind: Closed, Err: err}
	}
	b.Got = excerpt(got)
	return b
}

// excerpt returns the beginning of s for people to read: at most ExcerptMax bytes, in whole characters, with
// bytes that are not UTF-8 replaced.
func excerpt(s string) string {
	const more = "…"
	cut := len(s) > ExcerptMax
	if cut {
		s = s[:ExcerptMax-len(more)]
	}
	s = strings.ToValidUTF8(s, "?")
	if cut {
		s += more
	}
	return s
}
