package dialect

import (
	"encoding/xml"
	"strings"
)

// withAccount returns doc with the attribute id of the root renamed to account, if the root is
// <transactions>. All other bytes stay the same. A document that is not well-formed up to the end of
// its root's start tag is returned unchanged.
func withAccount(doc string) string {
	d := xml.NewDecoder(strings.NewReader(doc))
	d.CharsetReader = asIs
	for {
		before := d.InputOffset()
		token, err := d.RawToken()
		if err != nil {
			return doc
		}
		if root, ok := token.(xml.StartElement); ok {
			if root.Name != (xml.Name{Local: "transactions"}) {
				return doc
			}
			tag := doc[before:d.InputOffset()]
			return doc[:before] + renamed(tag) + doc[d.InputOffset():]
		}
	}
}

// renamed returns a well-formed tag with its attribute id renamed to account.
func renamed(tag string) string {
	quote := byte(0)
	for i := 0; i < len(tag); i++ {
		switch c := tag[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.HasPrefix(tag[i:], "id") && !nameByte(tag[i-1]):
			if strings.HasPrefix(strings.TrimLeft(tag[i+2:], " \t\r\n"), "=") {
				return tag[:i] + "account" + tag[i+2:]
			}
		}
	}
	return tag
}

// nameByte reports whether b, in a tag and outside of quotes, is part of a name.
func nameByte(b byte) bool { return !blank(b) && b != '"' && b != '\'' }
