package binance

import (
	"encoding/json"
	"strconv"

	"outcry/internal/exchange"
)

// object writes a JSON object member by member. Names need no escapes.
type object struct{ b []byte }

// begin begins an object after the bytes in b.
func begin(b []byte) object { return object{append(b, '{')} }

// name writes the name of the next member.
func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), `":`...)
}

// word writes a string that needs no escapes.
func (o *object) word(name, value string) {
	o.name(name)
	o.b = append(append(append(o.b, '"'), value...), '"')
}

// number writes a whole number.
func (o *object) number(name string, n int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

// flag writes true or false.
func (o *object) flag(name string, value bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, value)
}

// raw writes a value that is already JSON.
func (o *object) raw(name, json string) {
	o.name(name)
	o.b = append(o.b, json...)
}

// end ends the object and returns all bytes, including those before it.
func (o *object) end() []byte { return append(o.b, '}') }

// put writes a decimal.
func put[D decimal](o *object, name string, d D) {
	o.name(name)
	o.b = append(appendDecimal(append(o.b, '"'), d), '"')
}

// appendText appends a text as a JSON string.
func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(b, quoted...)
}

// appendList appends a list whose elements write appends.
func appendList[E any](b []byte, all []E, write func(b []byte, e *E) []byte) []byte {
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, &all[i])
	}
	return append(b, ']')
}

// appendLevel appends a price level: its price and shares.
func appendLevel(b []byte, p exchange.Price, shares exchange.Position) []byte {
	b = appendDecimal(append(b, '[', '"'), p)
	b = appendDecimal(append(b, '"', ',', '"'), shares)
	return append(b, '"', ']')
}
