package jsonrpc

import (
	"strconv"
	"unicode/utf8"

	"outcry/internal/exchange"
)

// Messages are encoded without reflection, because a busy market produces thousands of them a second. Symbols, refs,
// accounts and decimals need no escapes. Texts do.

// decimal is an exact number of the exchange.
type decimal interface{ Append(dst []byte) []byte }

// appendName appends the name of a member. Unless the member is the first of its object, a comma precedes it.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(append(b, '"'), name...)
	return append(b, '"', ':')
}

// appendDecimal appends a decimal as a JSON string, because readers of JSON may round numbers.
func appendDecimal[D decimal](b []byte, d D) []byte { return append(d.Append(append(b, '"')), '"') }

// memberDecimal appends a member whose value is a decimal.
func memberDecimal[D decimal](b []byte, name string, d D) []byte {
	return appendDecimal(appendName(b, name), d)
}

// memberNumber appends a member whose value is a whole number.
func memberNumber[N ~uint64](b []byte, name string, n N) []byte {
	return strconv.AppendUint(appendName(b, name), uint64(n), 10)
}

// memberName appends a member whose value is a string that needs no escapes.
func memberName[S ~string](b []byte, name string, s S) []byte {
	return append(append(append(appendName(b, name), '"'), s...), '"')
}

// memberText appends a member whose value is a string, with escapes where it needs them.
func memberText(b []byte, name, text string) []byte { return appendText(appendName(b, name), text) }

// memberBool appends a member whose value is true or false.
func memberBool(b []byte, name string, yes bool) []byte {
	return strconv.AppendBool(appendName(b, name), yes)
}

// memberTime appends a time, in nanoseconds since the Unix epoch, as the two members NAME_ns and NAME_ms. For 0, which
// means no time, it appends nothing.
func memberTime(b []byte, name string, time int64) []byte {
	if time == 0 {
		return b
	}
	b = appendName(b, name)
	b = append(b[:len(b)-len(`":`)], `_ns":"`...)
	from := len(b)
	b = strconv.AppendInt(b, time, 10)
	to := len(b)
	b = append(append(append(b, `","`...), name...), `_ms":`...)
	if time >= millisecond {
		return append(b, b[from:to-nanosecondDigits]...)
	}
	ms := time / millisecond
	if time < 0 && time%millisecond != 0 {
		ms--
	}
	return strconv.AppendInt(b, ms, 10)
}

// millisecond is a millisecond in nanoseconds, the unit of all times.
const millisecond = exchange.Second / 1000

// nanosecondDigits is how many decimal digits of a time are below a millisecond.
const nanosecondDigits = 6

// appendText appends a text as a JSON string, with escapes.
func appendText(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == '\x7f':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// list appends a member that is an array of n entries. add appends entry i.
func list(b []byte, name string, n int, add func(b []byte, i int) []byte) []byte {
	b = append(appendName(b, name), '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = add(b, i)
	}
	return append(b, ']')
}

// beginResult appends the start of a successful answer. The caller appends the members of the result, and endResult
// ends the answer.
func beginResult(b, id []byte) []byte {
	return append(append(append(b, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{`...)
}

func endResult(b []byte) []byte { return append(b, '}', '}') }

// appendFault appends the answer to a refused request. If id is nil, the answer's id is null.
func appendFault(b, id []byte, f *fault) []byte {
	if b = append(b, `{"jsonrpc":"2.0","id":`...); id == nil {
		b = append(b, "null"...)
	}
	b = append(append(b, id...), `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(f.code), 10)
	b = memberName(append(memberText(b, "message", clean(f.text)), `,"data":{`...), "reason", f.reason)
	return append(b, '}', '}', '}')
}

// clean returns the text as valid UTF-8. A quoted value may have been cut inside a character.
func clean(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// beginEvent appends the start of a message of a channel, up to and including its type. The caller appends further
// members, and endEvent ends the message.
func beginEvent(b []byte, channel, kind string) []byte {
	b = append(b, `{"jsonrpc":"2.0","method":"subscription","params":{`...)
	b = append(memberName(b, "channel", channel), `,"data":{`...)
	return memberName(b, "type", kind)
}

func endEvent(b []byte) []byte { return append(b, '}', '}', '}') }
