package wire

import "outcry/internal/exchange"

// An erroneous value of more than echoBytesMax is repeated as its first
// echoBytesCut, up to the beginning of a character, and an ellipsis. What was taken is
// repeated as it was sent: it is in the frame once, and so it is in the reply.
const (
	echoBytesMax = 128
	echoBytesCut = 64
)

// sentAttrs holds the attributes of an element that its reply repeats, as they were sent.
type sentAttrs struct {
	sym, amount, limit, id, ref                string
	hasSym, hasAmount, hasLimit, hasID, hasRef bool
}

// sentWith takes the attributes of an element that its reply repeats.
func sentWith(e *element) *sentAttrs {
	s := new(sentAttrs)
	s.sym, s.hasSym = e.attr("sym")
	s.amount, s.hasAmount = e.attr("amount")
	s.limit, s.hasLimit = e.attr("limit")
	s.id, s.hasID = e.attr("id")
	s.ref, s.hasRef = e.attr("ref")
	return s
}

// shorten cuts the values that an element of that name does not take, if they are
// long. A name is never taken if it is long: only decimals and numbers of orders have
// zeros in front of them.
func (s *sentAttrs) shorten(element string) {
	cut := func(value *string, taken func(string) error) {
		if len(*value) > echoBytesMax && (taken == nil || taken(*value) != nil) {
			*value = shorten(*value, echoBytesCut)
		}
	}
	var amount, limit, order func(string) error
	switch element {
	case "order":
		amount = func(v string) error { _, _, err := exchange.ParseAmount(v); return err }
		limit = func(v string) error { _, err := exchange.ParseLimit(v); return err }
	case "query", "cancel":
		order = func(v string) error { _, err := exchange.ParseOrderID(v); return err }
	}
	cut(&s.sym, nil)
	cut(&s.amount, amount)
	cut(&s.limit, limit)
	cut(&s.id, order)
	cut(&s.ref, nil)
}

// echo is what the reply repeats of an element.
type echo struct {
	sent  *sentAttrs // nil if it is plain
	plain []byte     // as the reply has it
}

// append appends the attributes of a request, in the order sym, amount, limit, id, ref.
func (e echo) append(dst []byte) []byte {
	if e.sent == nil {
		return append(dst, e.plain...)
	}
	if e.sent.hasSym {
		dst = appendAttr(dst, "sym", e.sent.sym)
	}
	if e.sent.hasAmount {
		dst = appendAttr(dst, "amount", e.sent.amount)
	}
	if e.sent.hasLimit {
		dst = appendAttr(dst, "limit", e.sent.limit)
	}
	if e.sent.hasID {
		dst = appendAttr(dst, "id", e.sent.id)
	}
	if e.sent.hasRef {
		dst = appendAttr(dst, "ref", e.sent.ref)
	}
	return dst
}
