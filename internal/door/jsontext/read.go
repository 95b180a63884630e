package jsontext

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// depthMax is how many levels deep values may be nested in a message.
const depthMax = 16

// namesScanned is the number of names of an object up to which each new name is compared with all others. For larger
// objects an index is built, since a message has room for thousands of names.
const namesScanned = 16

// Kind is the type of a JSON value.
type Kind uint8

// The kinds of values.
const (
	IsNull Kind = iota
	IsBool
	IsNumber
	IsString
	IsArray
	IsObject
)

// String returns the type, as error texts show it.
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Value is a JSON value that was read from a message.
type Value struct {
	Kind    Kind
	Yes     bool     // the value of a boolean
	Raw     []byte   // the value as sent, a slice of the message
	Text    string   // the content of a string, with escapes replaced
	Members []Member // the members of an object, in their order; each name occurs once
	Items   []Value  // the items of an array
}

// Member is a name in an object, with its value.
type Member struct {
	Name string
	Value
}

// Get returns the value of the member with a name.
func (v *Value) Get(name string) (found *Value, ok bool) {
	for i := range v.Members {
		if v.Members[i].Name == name {
			return &v.Members[i].Value, true
		}
	}
	return nil, false
}

// Own returns a copy of Text that stays valid after the scanner is released.
func (v *Value) Own() string { return strings.Clone(v.Text) }

// Errors for messages that are not valid JSON, or that are nested too deep.
var (
	errShort = errors.New("the message ends within a value")
	errDepth = fmt.Errorf("values are nested more than %d deep", depthMax)
)

// Scan reads a whole message, which must be UTF-8. It is stricter than RFC 8259: a name given twice, half of a
// surrogate pair, and nesting deeper than depthMax are errors. The value refers to text, to a copy of it, and to
// memory of the scanner, so it is valid until Release. The error says what is wrong, and where.
func (s *Scanner) Scan(text []byte) (v Value, err error) {
	s.text, s.copy, s.at = text, string(text), 0
	s.space()
	if v, err = s.value(1); err == nil {
		if s.space(); s.at < len(text) {
			err = errors.New("there is text after the value")
		}
	}
	if err != nil {
		return Value{}, fmt.Errorf("%w, at byte %d", err, s.at)
	}
	return v, nil
}

// Scanner reads JSON. The zero value is ready. Its memory is reused, since a request has about a dozen names.
type Scanner struct {
	text    []byte
	copy    string   // copy of text; strings without escapes are slices of it
	at      int      // index of the next byte
	open    []Member // members of objects that are not complete
	members []Member // members of complete objects
}

// scanners holds scanners for reuse.
var scanners = sync.Pool{New: func() any { return new(Scanner) }}

// NewScanner returns a scanner, which the caller releases.
func NewScanner() *Scanner { return scanners.Get().(*Scanner) }

// membersKeep is the largest number of members whose memory a released scanner keeps.
const membersKeep = 64

// Release drops the scanner's references, and returns it to the pool.
func (s *Scanner) Release() {
	if cap(s.open)+cap(s.members) > membersKeep {
		return
	}
	clear(s.open[:cap(s.open)])
	clear(s.members)
	*s = Scanner{open: s.open[:0], members: s.members[:0]}
	scanners.Put(s)
}

// space skips white space.
func (s *Scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next skips white space and returns the next byte without reading it. At the end of the text it returns 0.
func (s *Scanner) next() byte {
	s.space()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// unexpected returns the error for a next byte that is not the wanted one.
func (s *Scanner) unexpected(wanted string) error {
	if s.at >= len(s.text) {
		return errShort
	}
	r, _ := utf8.DecodeRune(s.text[s.at:])
	return fmt.Errorf("found %s where %s is expected", strconv.QuoteRune(r), wanted)
}

// value reads a value that is nested depth levels deep.
func (s *Scanner) value(depth int) (v Value, err error) {
	begin := s.at
	switch c := s.next(); {
	case c == '{':
		if depth > depthMax {
			return v, errDepth
		}
		v.Kind = IsObject
		v.Members, err = s.object(depth)
	case c == '[':
		if depth > depthMax {
			return v, errDepth
		}
		v.Kind = IsArray
		v.Items, err = s.array(depth)
	case c == '"':
		v.Kind = IsString
		v.Text, err = s.string()
	case c == '-' || '0' <= c && c <= '9':
		v.Kind = IsNumber
		err = s.number()
	default:
		v.Kind, v.Yes, err = s.word()
	}
	v.Raw = s.text[begin:s.at]
	return v, err
}

// word reads true, false or null.
func (s *Scanner) word() (kind Kind, yes bool, err error) {
	for _, w := range [...]struct {
		text string
		kind Kind
	}{{"true", IsBool}, {"false", IsBool}, {"null", IsNull}} {
		if bytes.HasPrefix(s.text[s.at:], []byte(w.text)) {
			s.at += len(w.text)
			return w.kind, w.text == "true", nil
		}
	}
	return 0, false, s.unexpected("a value")
}

// object reads an object, whose opening brace is the next byte.
func (s *Scanner) object(depth int) ([]Member, error) {
	s.at++ // {
	if s.next() == '}' {
		s.at++
		return nil, nil
	}
	begin := len(s.open)
	var index map[string]struct{} // names of the object; nil while there are few
	for {
		if s.next() != '"' {
			return nil, s.unexpected("a name")
		}
		name, err := s.string()
		if err != nil {
			return nil, err
		}
		if isTwice(s.open[begin:], name, &index) {
			return nil, fmt.Errorf("%s is given twice", Quote(name))
		}
		if s.next() != ':' {
			return nil, s.unexpected("a colon")
		}
		s.at++
		s.space()
		v, err := s.value(depth + 1)
		if err != nil {
			return nil, err
		}
		s.open = append(s.open, Member{name, v})
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return s.end(begin), nil
		default:
			return nil, s.unexpected("a comma or a brace")
		}
	}
}

// end moves the members of a complete object, open[begin:], to s.members, and returns them.
func (s *Scanner) end(begin int) []Member {
	first := len(s.members)
	s.members = append(s.members, s.open[begin:]...)
	s.open = s.open[:begin]
	return s.members[first:len(s.members):len(s.members)]
}

// isTwice reports whether one of an object's members already has that name. It builds index once there are many
// members.
func isTwice(members []Member, name string, index *map[string]struct{}) bool {
	if len(members) < namesScanned {
		return slices.ContainsFunc(members, func(m Member) bool { return m.Name == name })
	}
	if *index == nil {
		*index = make(map[string]struct{}, 2*namesScanned)
		for i := range members {
			(*index)[members[i].Name] = struct{}{}
		}
	}
	_, has := (*index)[name]
	(*index)[name] = struct{}{}
	return has
}

// array reads an array, whose opening bracket is the next byte.
func (s *Scanner) array(depth int) (items []Value, err error) {
	s.at++ // [
	if s.next() == ']' {
		s.at++
		return nil, nil
	}
	for {
		s.space()
		item, err := s.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return items, nil
		default:
			return nil, s.unexpected("a comma or a bracket")
		}
	}
}

// digits skips digits, and reports whether there was at least one.
func (s *Scanner) digits() bool {
	begin := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}

// is skips the next byte if it is one of bytes, and reports whether it was.
func (s *Scanner) is(bytes string) bool {
	for i := range len(bytes) {
		if s.at < len(s.text) && s.text[s.at] == bytes[i] {
			s.at++
			return true
		}
	}
	return false
}

// number skips a number. The error says what is wrong with it.
func (s *Scanner) number() error {
	s.is("-")
	if !s.is("0") && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.is(".") && !s.digits() {
		return s.unexpected("a digit")
	}
	if s.is("eE") {
		if s.is("+-"); !s.digits() {
			return s.unexpected("a digit")
		}
	}
	return nil
}

// string reads a string, whose opening quotation mark is the next byte.
func (s *Scanner) string() (string, error) {
	s.at++ // "
	begin := s.at
	var unescaped []byte // content up to the last escape; nil before the first escape
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			plain := s.copy[begin:s.at]
			if s.at++; unescaped == nil {
				return plain, nil
			}
			return string(append(unescaped, plain...)), nil
		case c < ' ':
			return "", fmt.Errorf("%s in a string is not escaped", strconv.QuoteRune(rune(c)))
		case c == '\\':
			unescaped = append(unescaped, s.text[begin:s.at]...)
			var err error
			if unescaped, err = s.escape(unescaped); err != nil {
				return "", err
			}
			begin = s.at
		default:
			s.at++
		}
	}
	return "", errShort
}

// escapes maps the character after a backslash to the character that the escape stands for.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads an escape, and appends the character that it stands for to dst.
func (s *Scanner) escape(dst []byte) ([]byte, error) {
	if s.at++; s.at == len(s.text) {
		return nil, errShort
	}
	c := s.text[s.at]
	if plain, ok := escapes[c]; ok {
		s.at++
		return append(dst, plain), nil
	}
	if c != 'u' {
		return nil, s.unexpected("an escaped character")
	}
	r, err := s.hex()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(r) {
		if !bytes.HasPrefix(s.text[s.at:], []byte(`\u`)) {
			return nil, errors.New("half of a surrogate pair is not a character")
		}
		s.at++
		low, err := s.hex()
		if err != nil {
			return nil, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return nil, errors.New("half of a surrogate pair is not a character")
		}
	}
	return utf8.AppendRune(dst, r), nil
}

// hex reads a u and four hexadecimal digits.
func (s *Scanner) hex() (rune, error) {
	const digits = 4
	if s.at++; len(s.text)-s.at < digits {
		return 0, errShort
	}
	n, err := strconv.ParseUint(string(s.text[s.at:s.at+digits]), 16, 16)
	if err != nil {
		return 0, errors.New(`four hexadecimal digits are expected after \u`)
	}
	s.at += digits
	return rune(n), nil
}

// QuotedBytesMax is how many bytes of a client's value an error text repeats at most.
const QuotedBytesMax = 72

// Quote returns s in quotes for an error text. The result is one printable line of bounded length.
func Quote(s string) string {
	if len(s) > QuotedBytesMax {
		return strconv.Quote(s[:QuotedBytesMax]) + "…"
	}
	return strconv.Quote(s)
}
