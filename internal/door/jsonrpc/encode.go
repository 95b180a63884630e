package jsonrpc

import (
	"strconv"
	"unicode/utf8"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// memberTime appends a time, in nanoseconds since the Unix epoch, as the two members NAME_ns and NAME_ms. For 0, which
// means no time, it appends nothing.
func memberTime(b []byte, name string, time int64) []byte {
	if time == 0 {
		return b
	}
	b = jsontext.Name(b, name)
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

// appendText appends a text as a JSON string. Unlike jsontext.Text it does not escape < and >, and allocates nothing.
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
	b = jsontext.Word(append(appendText(jsontext.Name(b, "message"), clean(f.text)), `,"data":{`...), "reason", f.reason)
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
	b = append(jsontext.Word(b, "channel", channel), `,"data":{`...)
	return jsontext.Word(b, "type", kind)
}

func endEvent(b []byte) []byte { return append(b, '}', '}', '}') }
