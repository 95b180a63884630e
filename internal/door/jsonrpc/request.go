package jsonrpc

import (
	"strconv"
	"unicode/utf8"

	"outcry/internal/exchange"
)

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

// read reads the params of a method into a. It checks their names first, then their types, then their values, and
// last the combination of values. one is the account of a request without the param account; "" means that the param
// is required.
func (m *method) read(a *args, one exchange.AccountID) *fault {
	for i := range a.params.members {
		if name := a.params.members[i].name; m.param(name) == nil {
			return wrong(unknownParam, m.name+" has no parameter "+quote(name))
		}
	}
	for i := range m.params {
		p := &m.params[i]
		if p.optional || a.has(p.name) || p.name == pAccount.name && one != "" {
			continue
		}
		return wrong(missingParam, m.name+" has no "+p.name)
	}
	if m.needs != nil {
		if f := m.needs(m, a); f != nil {
			return f
		}
	}
	for i := range a.params.members {
		v := &a.params.members[i]
		if p := m.param(v.name); !p.kind.fits(&v.value) {
			return wrong(wrongType, v.name+" has to be "+p.kind.String())
		}
	}
	a.Account, a.depth = one, depthLevels
	for i := range m.params { // in the order of the table, as elements are read through the XML door
		p := &m.params[i]
		if v, ok := a.params.get(p.name); ok {
			if err := p.read(a, v); err != nil {
				return wrong(invalidValue, err.Error())
			}
		}
	}
	if m.check != nil {
		return m.check(m, a)
	}
	return nil
}

// param returns the method's parameter with a name, or nil.
func (m *method) param(name string) *param {
	for i := range m.params {
		if m.params[i].name == name {
			return &m.params[i]
		}
	}
	return nil
}

// isWhole reports whether a number is whole and small enough for every JSON reader to represent it exactly.
func isWhole(number []byte) bool {
	n, err := strconv.ParseInt(string(number), 10, 64)
	return err == nil && -wholeMax <= n && n <= wholeMax
}
