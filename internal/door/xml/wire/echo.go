package wire

import "outcry/internal/exchange"

// A reply repeats a rejected value of more than echoBytesMax as its first echoBytesCut bytes, cut at a
// character boundary, and an ellipsis. It repeats accepted values in full: an accepted value occurs once
// in the frame and so at most once in the reply.
const (
	echoBytesMax = 128
	echoBytesCut = 64
)

// repeatedNames are the attributes, of any element, that its reply repeats, in the order of the reply.
var repeatedNames = [...]string{"sym", "amount", "limit", "type", "tif", "post", "stp", "cod", "report", "tick", "lot",
	"seconds", "after", "id", "ref", "newref"}

// sentAttrs holds the attributes of a request's element that its reply repeats, as they were sent, in
// the order of repeatedNames.
type sentAttrs struct{ attrs []sentAttr }

// sentAttr is one attribute of a request's element.
type sentAttr struct{ name, value string }

// sentWith returns the attributes of e that its reply repeats.
func sentWith(e *element) *sentAttrs { return sentWithin(e, nil) }

// sentWithin returns the attributes of e that its reply repeats. If around is not nil, it is the element
// around e, and its sym is repeated instead of that of e.
func sentWithin(e, around *element) *sentAttrs {
	s := &sentAttrs{make([]sentAttr, 0, len(e.attrs)+1)}
	for _, name := range repeatedNames {
		value, has := e.attr(name)
		if name == "sym" && around != nil {
			if outer, named := around.attr(name); named {
				value, has = outer, true
			}
		}
		if has {
			s.attrs = append(s.attrs, sentAttr{name, value})
		}
	}
	return s
}

// get returns the value of an attribute, or "" if it was not sent.
func (s *sentAttrs) get(name string) string {
	for _, a := range s.attrs {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// shorten cuts long values that an element of the given name does not accept. A name is never accepted
// if it is long; only decimals and whole numbers can be long and valid, through leading zeros.
func (s *sentAttrs) shorten(element string) {
	for i := range s.attrs {
		a := &s.attrs[i]
		if len(a.value) > echoBytesMax && !accepts(element, a.name, a.value) {
			a.value = shorten(a.value, echoBytesCut)
		}
	}
}

// accepts reports whether an element accepts a long value of an attribute.
func accepts(element, name, value string) bool {
	var err error
	switch element + " " + name {
	case "order amount", "order limit":
		return acceptsInOrder(name, value)
	case "query id", "cancel id", "amend id":
		_, err = exchange.ParseOrderID(value)
	case "amend amount":
		_, _, err = exchange.ParseAmount(value)
	case "amend limit":
		_, err = exchange.ParseLimit(value)
	case "symbol tick":
		_, err = parseTick(value)
	case "symbol lot":
		_, err = parseLot(value)
	case "cancel-after seconds":
		_, err = parseSeconds(value)
	case "orders after", "fills after":
		_, err = parseAfter(value)
	default:
		return false
	}
	return err == nil
}

// echo holds the attributes of a request's element that its reply repeats.
type echo struct {
	sent  *sentAttrs // the attributes to encode; nil if plain holds them
	plain []byte     // the attributes as encoded for the reply
}

// append appends the attributes. It is small enough for the compiler to inline, since most requests
// have them in plain.
func (e echo) append(dst []byte) []byte {
	if e.sent != nil {
		return e.sent.append(dst)
	}
	return append(dst, e.plain...)
}

// append encodes the attributes and appends them.
func (s *sentAttrs) append(dst []byte) []byte {
	for _, a := range s.attrs {
		dst = appendAttr(dst, a.name, a.value)
	}
	return dst
}
