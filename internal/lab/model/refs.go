package model

import (
	"errors"
	"regexp"
)

// refUse is what an account used a ref for, written out, and what came of it.
type refUse struct {
	content string
	order   *order // that it made, or that an amend left; nil for others
	// Of an amend.
	named int    // the order that it was about
	by    *order // the one that replaced it, nil if none did
	body  string // what its reply has in it without a report
}

var refGrammar = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// refOf returns the ref in an element's attribute, "" if it has none.
func refOf(n *node, name string) (string, error) {
	if n.has(name) && !refGrammar.MatchString(n.get(name)) {
		return "", errors.New("bad ref")
	}
	return n.get(name), nil
}

// once does what an account asks for with a ref, or without one if ref is "". What was
// done before with the ref is not done again: what came of it is returned.
func (x *Exchange) once(account, ref, content string, do func() (refUse, error)) (refUse, error) {
	if ref == "" {
		return do()
	}
	key := [2]string{account, ref}
	if used, ok := x.refs[key]; ok {
		if used.content != content {
			return refUse{}, errors.New("ref used for something else")
		}
		return used, nil
	}
	use, err := do()
	if err == nil {
		use.content = content
		x.refs[key] = use
	}
	return use, err
}

// named returns the id of the order that a query, a cancel or an amend of an account is about,
// 0 if it names none. A ref names the newest of its chain.
func (x *Exchange) named(account string, n *node) (int, error) {
	if n.has("id") == n.has("ref") {
		return 0, errors.New("no id, or id and ref")
	}
	if n.has("id") {
		return orderID(n.get("id")), nil
	}
	if o := x.refs[[2]string{account, n.get("ref")}].order; o != nil {
		return o.newest().id, nil
	}
	return 0, nil
}
