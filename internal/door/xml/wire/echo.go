package wire

import "outcry/internal/exchange"

// An erroneous value of more than echoBytesMax is repeated as its first
// echoBytesCut, up to the beginning of a character, and an ellipsis. What was taken is
// repeated as it was sent: it is in the frame once, and so it is in the reply.
const (
	echoBytesMax = 128
	echoBytesCut = 64
)

// repeatedNames are the attributes that a reply repeats, of any element, in their order.
var repeatedNames = [...]string{"sym", "amount", "limit", "type", "tif", "post", "stp", "cod", "report", "tick", "lot",
	"seconds", "after", "id", "ref", "newref"}

// sentAttrs holds the attributes of an element that its reply repeats, as they were sent,
// in the order of repeatedNames.
type sentAttrs struct{ attrs []sentAttr }

// sentAttr is one of them.
type sentAttr struct{ name, value string }

// sentWith takes the attributes of an element that its reply repeats.
func sentWith(e *element) *sentAttrs { return sentWithin(e, nil) }

// sentWithin takes the attributes of an element in another one, whose sym its reply repeats
// instead of its own. nil is none.
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

// get returns an attribute that was sent, "" if it was not.
func (s *sentAttrs) get(name string) string {
	for _, a := range s.attrs {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// shorten cuts the values that an element of that name does not take, if they are
// long. A name is never taken if it is long: only decimals and whole numbers have
// zeros in front of them.
func (s *sentAttrs) shorten(element string) {
	for i := range s.attrs {
		a := &s.attrs[i]
		if len(a.value) > echoBytesMax && !takes(element, a.name, a.value) {
			a.value = shorten(a.value, echoBytesCut)
		}
	}
}

// takes reports whether an element takes a long value of an attribute.
func takes(element, name, value string) bool {
	var err error
	switch element + " " + name {
	case "order amount", "order limit":
		return takesInOrder(name, value)
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
	for _, a := range s.attrs {
		dst = appendAttr(dst, a.name, a.value)
	}
	return dst
}
