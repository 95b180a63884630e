// Package jsontext writes the JSON of all doors, and reads that of requests, without reflection, because a busy market
// has thousands of messages a second. Rarer messages use encoding/json.
//
// The functions that write append to a buffer; those with a name append a member of an object. Their callers append
// braces and brackets.
package jsontext

import (
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
)

// Exact is an exact number of the exchange. Append appends its shortest decimal form.
type Exact interface{ Append(dst []byte) []byte }

// Next appends a comma, unless the next entry is the first in b, or the first of its object or list.
func Next(b []byte) []byte {
	if isFirst(b) {
		return b
	}
	return append(b, ',')
}

func isFirst(b []byte) bool { return len(b) == 0 || b[len(b)-1] == '{' || b[len(b)-1] == '[' }

// Name appends the name of a member, which must not need escapes. The caller appends the value.
func Name(b []byte, name string) []byte {
	if isFirst(b) {
		b = append(b, '"')
	} else {
		b = append(b, ',', '"')
	}
	return append(append(b, name...), '"', ':')
}

// Number appends a member whose value is a whole number.
func Number[N ~int | ~int64 | ~uint32 | ~uint64](b []byte, name string, n N) []byte {
	if n < 0 {
		return strconv.AppendInt(Name(b, name), int64(n), 10)
	}
	return strconv.AppendUint(Name(b, name), uint64(n), 10)
}

// Bool appends a member whose value is true or false.
func Bool(b []byte, name string, value bool) []byte { return strconv.AppendBool(Name(b, name), value) }

// Word appends a member whose value is a string that needs no escapes, such as a symbol, a ref or an account.
func Word[S ~string](b []byte, name string, value S) []byte { return AppendWord(Name(b, name), value) }

// AppendWord appends a string that needs no escapes.
func AppendWord[S ~string](b []byte, value S) []byte {
	return append(append(append(b, '"'), value...), '"')
}

// Words appends a member whose value is a list of strings that need no escapes.
func Words[S ~string](b []byte, name string, all []S) []byte {
	return List(Name(b, name), all, func(b []byte, s *S) []byte { return AppendWord(b, *s) })
}

// Text appends a member whose value is any string, with the escapes of encoding/json. It allocates.
func Text(b []byte, name, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(Name(b, name), quoted...)
}

// Raw appends a member whose value is already JSON.
func Raw[J ~string | ~[]byte](b []byte, name string, value J) []byte {
	return append(Name(b, name), value...)
}

// Decimal appends a member whose value is a decimal.
func Decimal[D Exact](b []byte, name string, d D) []byte { return AppendDecimal(Name(b, name), d) }

// AppendDecimal appends a decimal as a string, because JSON readers may round numbers.
func AppendDecimal[D Exact](b []byte, d D) []byte { return append(d.Append(append(b, '"')), '"') }

// List appends a list. add appends one entry.
func List[E any](b []byte, all []E, add func(b []byte, e *E) []byte) []byte {
	b = append(b, '[')
	for i := range all {
		b = add(Next(b), &all[i])
	}
	return append(b, ']')
}

// Levels appends a list of up to most price levels. add appends one level.
func Levels[P, S any](b []byte, levels iter.Seq2[P, S], most int, add func(b []byte, price P, shares S) []byte) []byte {
	b = append(b, '[')
	n := 0
	for price, shares := range levels {
		if n == most {
			break
		}
		n++
		b = add(Next(b), price, shares)
	}
	return append(b, ']')
}

// AppendLevel appends a price level: a list of the price and of the open shares at it.
func AppendLevel[P, S Exact](b []byte, price P, shares S) []byte {
	b = AppendDecimal(append(b, '['), price)
	return append(AppendDecimal(append(b, ','), shares), ']')
}

// Send answers an HTTP request with JSON.
func Send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json") // some clients read an error's text only with this type
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has disconnected
}
