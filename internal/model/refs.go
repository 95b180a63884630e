package model

import (
	"errors"
	"regexp"
)

// refUse is what an account used a ref for, written out, and the order that it made.
type refUse struct {
	content string
	order   *order
}

var refGrammar = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// refOf returns an element's ref, "" if it has none.
func refOf(n *node) (string, error) {
	if n.has("ref") && !refGrammar.MatchString(n.get("ref")) {
		return "", errors.New("bad ref")
	}
	return n.get("ref"), nil
}

// once does what an account asks for with a ref, or without one if ref is "". What was
// done before with the ref is not done again: the order that came of it is returned.
func (x *Exchange) once(account, ref, content string, do func() (*order, error)) (*order, error) {
	if ref == "" {
		return do()
	}
	key := [2]string{account, ref}
	if used, ok := x.refs[key]; ok {
		if used.content != content {
			return nil, errors.New("ref used for something else")
		}
		return used.order, nil
	}
	o, err := do()
	if err == nil {
		x.refs[key] = refUse{content, o}
	}
	return o, err
}

// named returns the id of the order that a query or a cancel of an account is about, 0
// if it names none.
func (x *Exchange) named(account string, n *node) (int, error) {
	if n.has("id") == n.has("ref") {
		return 0, errors.New("no id, or id and ref")
	}
	if n.has("id") {
		return orderID(n.get("id")), nil
	}
	if o := x.refs[[2]string{account, n.get("ref")}].order; o != nil {
		return o.id, nil
	}
	return 0, nil
}
