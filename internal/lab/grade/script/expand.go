package script

import (
	"fmt"
	"strconv"
	"strings"

	"outcry/internal/lab/dialect"
)

// repeatMax bounds {repeat N TEXT}, and bodyBytesMax bounds the result of nested ones.
const repeatMax = 100_000

var errTooLong = fmt.Errorf("the repetitions have more than %d bytes", bodyBytesMax)

// expander replaces braces. In text that is sent, it also replaces $ values.
type expander struct {
	name   func(name string) (value string, ok bool) // returns the value of {name}
	value  func(name string) (value string, ok bool) // returns the value of $name; nil in WANT, where $name stays
	raw    bool                                      // the text is BYTES, with escapes and {frame DOC}
	habits dialect.Habits                            // for {frame DOC}
	k      string                                    // the value of {k} within {repeat}
	spent  int                                       // bytes written plus repetitions
}

// expand returns text with its braces and $ values replaced. The error names a name without a value, or the limit that
// was exceeded.
func (x *expander) expand(text string) (string, error) {
	var out strings.Builder
	for text != "" {
		i := strings.IndexAny(text, "{$")
		if i < 0 {
			i = len(text)
		}
		literal, err := x.literal(text[:i])
		if err != nil {
			return "", err
		}
		text = text[i:]
		value, rest, err := x.special(text)
		if err != nil {
			return "", err
		}
		text = rest
		out.WriteString(literal)
		out.WriteString(value)
		if x.spent += len(literal) + len(value); x.spent > bodyBytesMax {
			return "", errTooLong
		}
	}
	return out.String(), nil
}

// special returns the value of the brace or $ at the start of text, and the rest of text.
func (x *expander) special(text string) (value, rest string, err error) {
	switch {
	case text == "":
		return "", "", nil
	case text[0] == '$':
		n := 1
		for n < len(text) && isNameByte(text[n]) {
			n++
		}
		if n == 1 || x.value == nil {
			return text[:n], text[n:], nil
		}
		if value, ok := x.value(text[1:n]); ok {
			return value, text[n:], nil
		}
		return "", "", fmt.Errorf("%s has no value: no line above expects it (a dollar sign alone is &#36;)", text[:n])
	}
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				value, err = x.braces(text[1:i])
				return value, text[i+1:], err
			}
		}
	}
	return "", "", fmt.Errorf("the brace of %q is not closed", elide(text, 40))
}

// braces returns the value of {inner}.
func (x *expander) braces(inner string) (string, error) {
	word, rest, more := strings.Cut(inner, " ")
	switch {
	case !more && word == "k" && x.k != "":
		return x.k, nil
	case !more:
		if value, ok := x.name(word); ok {
			return value, nil
		}
	case word == "repeat":
		return x.repeat(rest)
	case x.raw && (word == "frame" || word == "crlf" || word == "cut"):
		doc, err := x.expand(rest)
		if err != nil {
			return "", err
		}
		habits := x.habits
		habits.CRLF = habits.CRLF || word == "crlf"
		frame := string(habits.Frame(doc))
		if word == "cut" {
			frame = frame[:len(frame)-(len(doc)+1)/2]
		}
		return frame, nil
	}
	return "", fmt.Errorf("there is no {%s} here", elide(inner, 40))
}

// repeat returns the value of {repeat text}.
func (x *expander) repeat(text string) (string, error) {
	number, text, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > repeatMax {
		return "", fmt.Errorf("{repeat %s: not a number from 1 to %d", elide(number, 40), repeatMax)
	}
	before := x.k
	defer func() { x.k = before }()
	var out strings.Builder
	for i := range n {
		x.spent++ // so that repetitions of an empty text are bounded too
		x.k = strconv.Itoa(i + 1)
		s, err := x.expand(text)
		if err != nil {
			return "", err
		}
		out.WriteString(s)
	}
	return out.String(), nil
}

// escapes are the escapes of BYTES, other than \xFF.
var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '0': 0, '\\': '\\'}

// literal returns a text without braces and $, with its escapes replaced if it is BYTES.
func (x *expander) literal(text string) (string, error) {
	if !x.raw || !strings.Contains(text, `\`) {
		return text, nil
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out.WriteByte(text[i])
			continue
		}
		rest := text[i+1:]
		if len(rest) >= 3 && rest[0] == 'x' {
			if b, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
				out.WriteByte(byte(b))
				i += 3
				continue
			}
		}
		if rest == "" || escapes[rest[0]] == 0 && rest[0] != '0' {
			return "", fmt.Errorf(`there is no escape \%s; the escapes are \n \r \t \0 \\ \xFF`, elide(rest, 3))
		}
		out.WriteByte(escapes[rest[0]])
		i++
	}
	return out.String(), nil
}

func isNameByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// isAccountName reports whether {name} names an account: a small letter, then small letters and digits.
func isAccountName(name string) bool { return isName(name, 'a', 'z') }

// isSymbolName reports whether {name} names a symbol: a capital letter, then capital letters and digits.
func isSymbolName(name string) bool { return isName(name, 'A', 'Z') }

func isName(name string, from, to byte) bool {
	for i := range len(name) {
		if b := name[i]; (b < from || b > to) && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return name != ""
}

// reserved are the words that cannot name an account.
var reserved = map[string]bool{"n": true, "k": true, "part": true, "repeat": true, "frame": true, "crlf": true,
	"cut": true}
