package jsonrpc

import (
	"strconv"
	"unicode/utf8"
)

const (
	// wholeMax is the largest whole number in messages. Every JSON reader represents it exactly.
	wholeMax = 1<<53 - 1

	// idCharsMax is how many characters the id of a request may have.
	idCharsMax = 64
)

// request is a well-formed message of a client.
type request struct {
	id     []byte // as sent
	method *method
	args   args
}

// parse reads a message. After a fault only r.id is set; it is nil if the id is wrong, or was not read before the
// fault. What r refers to is valid as long as the values of s.
func (r *request) parse(s *scanner, text []byte) *fault {
	message, err := s.scan(text)
	if err != nil {
		return wrong(invalidJSON, err.Error())
	}
	if message.kind == isArray {
		return wrong(invalidRequest, "a request is an object: batches are not accepted")
	}
	if message.kind != isObject {
		return wrong(invalidRequest, "a request is an object, and not "+message.kind.String())
	}
	if f := r.readID(&message); f != nil {
		return f
	}
	var params value
	for i := range message.members {
		switch m := &message.members[i]; m.name {
		case "jsonrpc", "id", "method":
		case "params":
			if m.kind != isObject {
				return wrong(invalidRequest, "params is "+m.kind.String()+", and has to be an object")
			}
			params = m.value
		default:
			return wrong(invalidRequest, "a request has no member "+quote(m.name))
		}
	}
	if version, ok := message.get("jsonrpc"); !ok || version.kind != isString || version.text != "2.0" {
		return wrong(invalidRequest, `jsonrpc has to be "2.0"`)
	}
	name, ok := message.get("method")
	if !ok {
		return wrong(invalidRequest, "a request has no method")
	}
	if name.kind != isString {
		return wrong(invalidRequest, "method is "+name.kind.String()+", and has to be a string")
	}
	if r.method = methodNamed(name.text); r.method == nil {
		return wrong(unknownMethod, "there is no method "+quote(name.text))
	}
	r.args.params = params
	return nil
}

// readID reads the id of a request into r.id.
func (r *request) readID(message *value) *fault {
	id, ok := message.get("id")
	if !ok {
		return wrong(invalidRequest, "a request has no id: there are no notifications")
	}
	switch {
	case id.kind == isString && utf8.RuneCountInString(id.text) <= idCharsMax:
	case id.kind == isString:
		return wrong(invalidRequest, "id has more than 64 characters")
	case id.kind == isNumber && isWhole(id.raw):
	case id.kind == isNumber:
		return wrong(invalidRequest, "id "+quote(string(id.raw))+" is not a whole number from -(2^53-1) to 2^53-1")
	default:
		return wrong(invalidRequest, "id is "+id.kind.String()+", and has to be a whole number or a string")
	}
	r.id = id.raw
	return nil
}

// isWhole reports whether a number is whole and small enough for every JSON reader to represent it exactly.
func isWhole(number []byte) bool {
	n, err := strconv.ParseInt(string(number), 10, 64)
	return err == nil && -wholeMax <= n && n <= wholeMax
}
