package wire

import "outcry/internal/exchange"

// An erroneous value of more than echoBytesMax is repeated as its first
// echoBytesCut, up to the beginning of a character, and an ellipsis. What was taken is
// repeated as it was sent: it is in the frame once, and so it is in the reply.
const (
	echoBytesMax = 128
	echoBytesCut = 64
)

// sentAttrs holds the attributes of an element that its reply repeats, as they were sent,
// in the order of repeatedNames.
type sentAttrs struct {
	values [len(repeatedNames)]string
	has    [len(repeatedNames)]bool
}

// repeatedSym is where the sym is, which shares to be placed have from the symbol around.
const repeatedSym = 0

// sentWith takes the attributes of an element that its reply repeats.
func sentWith(e *element) *sentAttrs {
	s := new(sentAttrs)
	for i, name := range repeatedNames {
		s.values[i], s.has[i] = e.attr(name)
	}
	return s
}

// shorten cuts the values that an element of that name does not take, if they are
// long. A name is never taken if it is long: only decimals and numbers of orders have
// zeros in front of them.
func (s *sentAttrs) shorten(element string) {
	for i, name := range repeatedNames {
		if v := s.values[i]; len(v) > echoBytesMax && !takes(element, name, v) {
			s.values[i] = shorten(v, echoBytesCut)
		}
	}
}

// takes reports whether an element takes a long value of an attribute.
func takes(element, name, value string) bool {
	switch element {
	case "order":
		return takesInOrder(name, value)
	case "query", "cancel":
		_, err := exchange.ParseOrderID(value)
		return name == "id" && err == nil
	}
	return false
}

// echo is what the reply repeats of an element.
type echo struct {
	sent  *sentAttrs // nil if it is plain
	plain []byte     // as the reply has it
}

// append appends the attributes of a request. It is small, for the compiler to inline it
// where most requests have them plain.
func (e echo) append(dst []byte) []byte {
	if e.sent != nil {
		return e.sent.append(dst)
	}
	return append(dst, e.plain...)
}

// append appends the attributes that were sent.
func (s *sentAttrs) append(dst []byte) []byte {
	for i := range repeatedNames {
		if s.has[i] {
			dst = appendAttr(dst, repeatedNames[i], s.values[i])
		}
	}
	return dst
}
