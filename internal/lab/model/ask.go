package model

import (
	"errors"
	"math/big"
	"slices"
)

// ask holds the attributes of an <order> as they were sent.
type ask struct {
	sym           string
	amount, limit *big.Int // limit is nil if none was sent
	market, post  bool
	tif, stp      string // tif is never empty; stp is "" if none was sent
	cod           string // yes, no, or "" if it was not sent
	full          bool   // if true, the reply reports what the order did at once
	ref           string
}

// readAsk reads an <order>. It returns an error if the element is malformed.
func readAsk(n *node) (q ask, err error) {
	bad := errors.New("bad symbol, amount or limit, bad ref, or bad instruction")
	var errs [3]error
	q.amount, errs[0] = decimal(n.get("amount"), orderBound)
	q.ref, errs[1] = refOf(n, "ref")
	q.sym, q.stp, q.cod, q.tif = n.get("sym"), n.get("stp"), n.get("cod"), n.get("tif")
	q.market, q.post, q.full = n.has("type"), n.get("post") == "yes", n.has("report")
	if n.has("limit") {
		q.limit, errs[2] = decimal(n.get("limit"), orderBound)
	} else if !q.market {
		return q, bad
	}
	if errors.Join(errs[:]...) != nil || q.amount.Sign() == 0 || q.limit != nil && q.limit.Sign() <= 0 ||
		!symbol.MatchString(q.sym) {
		return q, bad
	}
	for name, values := range instructions {
		if n.has(name) && !slices.Contains(values, n.get(name)) {
			return q, bad
		}
	}
	if q.tif == "" {
		q.tif = "GTC"
		if q.market {
			q.tif = "IOC"
		}
	}
	if q.market && q.tif == "GTC" || q.post && (q.market || q.tif != "GTC") {
		return q, bad
	}
	return q, nil
}

// instructions lists, for each attribute with an enumerated value, the values it may have.
var instructions = map[string][]string{
	"type":   {"market"},
	"tif":    {"GTC", "IOC", "FOK"},
	"post":   {"yes", "no"},
	"stp":    {"newest", "oldest", "both"},
	"cod":    {"yes", "no"},
	"report": {"full"},
}

// content returns the text that is compared when a ref is used again: orders with equal content count as the same
// order.
func (q ask) content() string {
	s := "order " + q.sym + " " + show(q.amount) + " " + showOrNone(q.limit) + " " + q.tif + " " + q.stp
	if q.market {
		s += " market"
	}
	if q.post {
		s += " post"
	}
	return s
}

// showOrNone is like show, but accepts nil for a value that was not sent.
func showOrNone(v *big.Int) string {
	if v == nil {
		return "-"
	}
	return show(v)
}
