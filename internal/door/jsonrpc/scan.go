package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// depthMax is how deep a message may be nested.
const depthMax = 16

// namesScanned is how many names of an object are compared with each other; of more an index is made, as a
// message has room for thousands.
const namesScanned = 16

// valueKind is a type of JSON.
type valueKind uint8

const (
	isNull valueKind = iota
	isBool
	isNumber
	isString
	isArray
	isObject
)

// String returns the type as texts of errors have it.
func (k valueKind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// value is a JSON value.
type value struct {
	kind    valueKind
	yes     bool     // of isBool
	raw     []byte   // as sent: a part of the message
	text    string   // of isString, without escapes
	members []member // of isObject, in their order, each name once
	items   []value  // of isArray
}

// member is a name in an object, and what it stands for.
type member struct {
	name string
	value
}

// get returns the member of a name.
func (v *value) get(name string) (found *value, ok bool) {
	for i := range v.members {
		if v.members[i].name == name {
			return &v.members[i].value, true
		}
	}
	return nil, false
}

// own returns the text of a string for what outlives its message: it is no part of that.
func (v *value) own() string { return strings.Clone(v.text) }

// What is wrong with a text that is not the JSON that is accepted.
var (
	errShort = errors.New("the message ends within a value")
	errDepth = fmt.Errorf("values are nested more than %d deep", depthMax)
)

// scan reads a whole message, which must be UTF-8. It is stricter than RFC 8259: a name given twice, half of a
// surrogate pair, and nesting deeper than depthMax are errors. The value refers to the text, to one copy of it, and to
// memory of the scanner: it is valid until release. The error says what is wrong, and where.
func (s *scanner) scan(text []byte) (v value, err error) {
	s.text, s.copy, s.at = text, string(text), 0
	s.space()
	if v, err = s.value(1); err == nil {
		if s.space(); s.at < len(text) {
			err = errors.New("there is text behind the value")
		}
	}
	if err != nil {
		return value{}, fmt.Errorf("%w, at byte %d", err, s.at)
	}
	return v, nil
}

// scanner reads JSON. Its memory is used again: a request has a dozen names.
type scanner struct {
	text    []byte
	copy    string   // of text: strings without escapes are parts of it
	at      int      // the next byte
	open    []member // of objects that have not ended
	members []member // of those that have
}

// scanners are those that nobody uses.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// membersKeep is how many members a scanner that nobody uses has memory for at the most.
const membersKeep = 64

// release gives a scanner back, without what it refers to.
func (s *scanner) release() {
	if cap(s.open)+cap(s.members) > membersKeep {
		return
	}
	clear(s.open[:cap(s.open)])
	clear(s.members)
	*s = scanner{open: s.open[:0], members: s.members[:0]}
	scanners.Put(s)
}

// space goes on to the next byte that is not white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next returns the next byte behind white space, 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// unexpected is the error about the next byte.
func (s *scanner) unexpected(wanted string) error {
	if s.at >= len(s.text) {
		return errShort
	}
	r, _ := utf8.DecodeRune(s.text[s.at:])
	return fmt.Errorf("%s stands where %s is expected", strconv.QuoteRune(r), wanted)
}

// value reads a value, which is nested so deep.
func (s *scanner) value(depth int) (v value, err error) {
	begin := s.at
	switch c := s.next(); {
	case c == '{':
		if depth > depthMax {
			return v, errDepth
		}
		v.kind = isObject
		v.members, err = s.object(depth)
	case c == '[':
		if depth > depthMax {
			return v, errDepth
		}
		v.kind = isArray
		v.items, err = s.array(depth)
	case c == '"':
		v.kind = isString
		v.text, err = s.string()
	case c == '-' || '0' <= c && c <= '9':
		v.kind = isNumber
		err = s.number()
	default:
		v.kind, v.yes, err = s.word()
	}
	v.raw = s.text[begin:s.at]
	return v, err
}

// word reads true, false or null.
func (s *scanner) word() (kind valueKind, yes bool, err error) {
	for _, w := range [...]struct {
		text string
		kind valueKind
	}{{"true", isBool}, {"false", isBool}, {"null", isNull}} {
		if bytes.HasPrefix(s.text[s.at:], []byte(w.text)) {
			s.at += len(w.text)
			return w.kind, w.text == "true", nil
		}
	}
	return 0, false, s.unexpected("a value")
}

// object reads an object.
func (s *scanner) object(depth int) ([]member, error) {
	s.at++ // {
	if s.next() == '}' {
		s.at++
		return nil, nil
	}
	begin := len(s.open)
	var index map[string]struct{} // of the names, where there are many
	for {
		if s.next() != '"' {
			return nil, s.unexpected("a name")
		}
		name, err := s.string()
		if err != nil {
			return nil, err
		}
		if isTwice(s.open[begin:], name, &index) {
			return nil, fmt.Errorf("%s is given twice", quote(name))
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
		s.open = append(s.open, member{name, v})
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

// end returns the members of the object that has ended: of the open ones, those from begin on.
func (s *scanner) end(begin int) []member {
	first := len(s.members)
	s.members = append(s.members, s.open[begin:]...)
	s.open = s.open[:begin]
	return s.members[first:len(s.members):len(s.members)]
}

// isTwice reports whether one of an object's members has that name already.
func isTwice(members []member, name string, index *map[string]struct{}) bool {
	if len(members) < namesScanned {
		return slices.ContainsFunc(members, func(m member) bool { return m.name == name })
	}
	if *index == nil {
		*index = make(map[string]struct{}, 2*namesScanned)
		for i := range members {
			(*index)[members[i].name] = struct{}{}
		}
	}
	_, has := (*index)[name]
	(*index)[name] = struct{}{}
	return has
}

// array reads an array.
func (s *scanner) array(depth int) (items []value, err error) {
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

// digits reads digits, and reports whether there was one.
func (s *scanner) digits() bool {
	begin := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}

// is reads a byte if it is one of those.
func (s *scanner) is(bytes string) bool {
	for i := range len(bytes) {
		if s.at < len(s.text) && s.text[s.at] == bytes[i] {
			s.at++
			return true
		}
	}
	return false
}

// number reads a number.
func (s *scanner) number() error {
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
