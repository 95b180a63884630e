package model

import (
	"errors"
	"regexp"
)

// refUse records what an account used a ref for, and the result.
type refUse struct {
	content string
	order   *order // the order that was placed, or that is in the book after an amend; otherwise nil
	// These fields are set for amends.
	named int    // id of the order that was amended
	by    *order // the order that replaced it; nil if it was not replaced
	body  string // content of the reply without a report
}

var refGrammar = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// refOf returns the ref in the named attribute. It returns "" if the attribute is missing and an error if
// it is malformed.
func refOf(n *node, name string) (string, error) {
	if n.has(name) && !refGrammar.MatchString(n.get(name)) {
		return "", errors.New("bad ref")
	}
	return n.get(name), nil
}

// once runs do, at most once for each ref of an account. If the ref was used before with the same
// content, it returns the earlier result. An empty ref always runs do.
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

// named returns the id of the order that a query, cancel or amend names by id or ref, or 0 if there is no
// such order. A ref names the newest order of its chain.
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
