package jsonrpc

import (
	"strconv"
	"unicode/utf8"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// parse reads a message. After a fault only r.id is set; it is nil if the id is wrong, or was not read before the
// fault. What r refers to is valid as long as the values of s.
func (r *request) parse(s *jsontext.Scanner, text []byte) *fault {
	message, err := s.Scan(text)
	if err != nil {
		return wrong(invalidJSON, err.Error())
	}
	if message.Kind == jsontext.IsArray {
		return wrong(invalidRequest, "a request is an object: batches are not accepted")
	}
	if message.Kind != jsontext.IsObject {
		return wrong(invalidRequest, "a request is an object, and not "+message.Kind.String())
	}
	if f := r.readID(&message); f != nil {
		return f
	}
	var params value
	for i := range message.Members {
		switch m := &message.Members[i]; m.Name {
		case "jsonrpc", "id", "method":
		case "params":
			if m.Kind != jsontext.IsObject {
				return wrong(invalidRequest, "params is "+m.Kind.String()+", but must be an object")
			}
			params = m.Value
		default:
			return wrong(invalidRequest, "a request has no member "+jsontext.Quote(m.Name))
		}
	}
	if version, ok := message.Get("jsonrpc"); !ok || version.Kind != jsontext.IsString || version.Text != "2.0" {
		return wrong(invalidRequest, `jsonrpc must be "2.0"`)
	}
	name, ok := message.Get("method")
	if !ok {
		return wrong(invalidRequest, "a request has no method")
	}
	if name.Kind != jsontext.IsString {
		return wrong(invalidRequest, "method is "+name.Kind.String()+", but must be a string")
	}
	if r.method = methodNamed(name.Text); r.method == nil {
		return wrong(unknownMethod, "there is no method "+jsontext.Quote(name.Text))
	}
	r.args.params = params
	return nil
}

// readID reads the id of a request into r.id.
func (r *request) readID(message *value) *fault {
	id, ok := message.Get("id")
	if !ok {
		return wrong(invalidRequest, "a request has no id: there are no notifications")
	}
	switch {
	case id.Kind == jsontext.IsString && utf8.RuneCountInString(id.Text) <= idCharsMax:
	case id.Kind == jsontext.IsString:
		return wrong(invalidRequest, "id has more than 64 characters")
	case id.Kind == jsontext.IsNumber && isWhole(id.Raw):
	case id.Kind == jsontext.IsNumber:
		return wrong(invalidRequest, "id "+jsontext.Quote(string(id.Raw))+" is not a whole number from -(2^53-1) to 2^53-1")
	default:
		return wrong(invalidRequest, "id is "+id.Kind.String()+", but must be a whole number or a string")
	}
	r.id = id.Raw
	return nil
}

// read reads the params of a method into a. It checks their names first, then their types, then their values, and
// last the combination of values. one is the account of a request without the param account; "" means that the param
// is required.
func (m *method) read(a *args, one exchange.AccountID) *fault {
	for i := range a.params.Members {
		if name := a.params.Members[i].Name; m.param(name) == nil {
			return wrong(unknownParam, m.name+" has no parameter "+jsontext.Quote(name))
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
	for i := range a.params.Members {
		v := &a.params.Members[i]
		if p := m.param(v.Name); !p.kind.fits(&v.Value) {
			return wrong(wrongType, v.Name+" must be "+p.kind.String())
		}
	}
	a.Account, a.depth = one, depthLevels
	for i := range m.params { // in the order of the table, as elements are read through the XML door
		p := &m.params[i]
		if v, ok := a.params.Get(p.name); ok {
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

// param returns the method's parameter with the given name, or nil.
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
