package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads a string, whose opening quotation mark is the next byte.
func (s *scanner) string() (string, error) {
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
			return "", fmt.Errorf("%s stands in a string without an escape", strconv.QuoteRune(rune(c)))
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
func (s *scanner) escape(dst []byte) ([]byte, error) {
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
			return nil, errors.New("half of a surrogate pair is no character")
		}
		s.at++
		low, err := s.hex()
		if err != nil {
			return nil, err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return nil, errors.New("half of a surrogate pair is no character")
		}
	}
	return utf8.AppendRune(dst, r), nil
}

// hex reads a u and four hexadecimal digits.
func (s *scanner) hex() (rune, error) {
	const digits = 4
	if s.at++; len(s.text)-s.at < digits {
		return 0, errShort
	}
	n, err := strconv.ParseUint(string(s.text[s.at:s.at+digits]), 16, 16)
	if err != nil {
		return 0, errors.New(`four hexadecimal digits are expected behind \u`)
	}
	s.at += digits
	return rune(n), nil
}

// quotedBytesMax is how many bytes of a client's value an error text repeats at most.
const quotedBytesMax = 72

// quote returns s in quotes for an error text. The result is one printable line of bounded length.
func quote(s string) string {
	if len(s) > quotedBytesMax {
		return strconv.Quote(s[:quotedBytesMax]) + "…"
	}
	return strconv.Quote(s)
}
