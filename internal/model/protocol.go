package model

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The grammars of section 2. A number has up to 8 fractional digits, as written.
var (
	digits    = regexp.MustCompile(`^[0-9]+$`)
	accountID = regexp.MustCompile(`^[0-9]{1,64}$`)
	symbol    = regexp.MustCompile(`^[A-Za-z0-9]{1,32}$`)
	number    = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]{0,8})?|\.[0-9]{1,8})$`)
)

// decimal reads a decimal of section 2 in units of 10^-8, whose absolute value is below bound.
func decimal(s string, bound *big.Int) (*big.Int, error) {
	if !number.MatchString(s) {
		return nil, errors.New("no decimal")
	}
	whole, fraction, _ := strings.Cut(s, ".")
	v, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", 8-len(fraction)), 10)
	if !ok || new(big.Int).Abs(v).Cmp(bound) >= 0 {
		return nil, errors.New("out of range")
	}
	return v, nil
}

// The limits of section 2: of a balance and of shares placed, and of an order's
// amount and limit. What is read stays below them.
var (
	balanceBound = tenTo(18 + 8)
	orderBound   = product(big.NewInt(9), tenTo(10+8))
)

// Do answers one frame's XML with its reply's XML, without length lines; what
// happens in it happens at now, in seconds since the epoch. It never fails: what
// is wrong with a frame is said in the reply (section 6), and then changes
// nothing. The texts of errors are the model's own.
func (x *Exchange) Do(doc []byte, now int64) []byte {
	root, err := parse(doc)
	var replies []string
	switch {
	case err != nil:
		return []byte("<results><error>malformed</error></results>")
	case root.name == "create" && len(root.attrs) == 0:
		for _, child := range root.children {
			replies = append(replies, x.createChild(child)...)
		}
	case root.name == "transactions" && root.only("id", "account"):
		for _, child := range root.children {
			replies = append(replies, x.transaction(root, child, now))
		}
	default:
		return []byte("<results><error>unknown root or attribute</error></results>")
	}
	if len(replies) == 0 {
		return []byte("<results/>")
	}
	return []byte("<results>" + strings.Join(replies, "") + "</results>")
}

// escape writes a value so that it is read back the same from an attribute.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;",
		"\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;").Replace(s)
}

// echo returns the attributes of a request that its reply repeats. sym is that
// of the symbol around it, if it is in one that has one.
func echo(n, around *node) string {
	s := ""
	for _, name := range repeatedAttributes {
		switch {
		case name == "sym" && around != nil && around.has("sym"):
			s += ` sym="` + escape(repeated(around, "sym")) + `"`
		case n.has(name):
			s += " " + name + `="` + escape(repeated(n, name)) + `"`
		}
	}
	return s
}

// repeated returns an attribute as a reply repeats it: of an erroneous value that is
// longer than 128 bytes, 64 and an ellipsis.
func repeated(n *node, name string) string {
	s := n.get(name)
	good := false
	switch n.name + " " + name {
	case "order amount":
		amount, err := decimal(s, orderBound)
		good = err == nil && amount.Sign() != 0
	case "order limit":
		limit, err := decimal(s, orderBound)
		good = err == nil && limit.Sign() > 0
	case "query id", "cancel id":
		good = orderID(s) > 0
	}
	if good || len(s) <= 128 {
		return s
	}
	first := ""
	for _, c := range s {
		if len(first)+utf8.RuneLen(c) > 64 {
			break
		}
		first += string(c)
	}
	return first + "…"
}

// refusal is the answer to n, which err is wrong with.
func refusal(n, around *node, err error) string {
	return "<error" + echo(n, around) + ">" + err.Error() + "</error>"
}

// createChild answers a child of <create> (section 3).
func (x *Exchange) createChild(n *node) []string {
	if n.name == "symbol" {
		return x.createSymbol(n)
	}
	err := errors.New("unknown element, attribute or content")
	if n.name == "account" && n.only("id", "balance", "ref") && n.empty() {
		err = x.openAccount(n)
	}
	if err != nil {
		return []string{refusal(n, nil, err)}
	}
	return []string{"<created" + echo(n, nil) + "/>"}
}

// openAccount answers an <account> at top level.
func (x *Exchange) openAccount(n *node) error {
	ref, err1 := refOf(n)
	balance, err2 := decimal(n.get("balance"), balanceBound)
	id := n.get("id")
	if err1 != nil || err2 != nil || balance.Sign() < 0 || !accountID.MatchString(id) {
		return errors.New("bad id, balance or ref")
	}
	_, err := x.once(id, ref, "account "+show(balance), func() (*order, error) {
		return nil, x.open(id, product(balance, tenTo(8)))
	})
	return err
}

// createSymbol answers a <symbol>: each of its children, or itself if it has
// none. It is made before they are looked at.
func (x *Exchange) createSymbol(n *node) (replies []string) {
	if !n.only("sym") {
		return []string{refusal(n, nil, errors.New("unknown attribute"))}
	}
	good := symbol.MatchString(n.get("sym"))
	if good {
		x.make(n.get("sym"))
	}
	for _, child := range n.children {
		err := errors.New("bad symbol")
		if good {
			err = x.placeShares(n.get("sym"), child)
		}
		if err != nil {
			replies = append(replies, refusal(child, n, err))
		} else {
			replies = append(replies, "<created"+echo(child, n)+"/>")
		}
	}
	switch {
	case len(n.children) > 0:
		return replies
	case !good:
		return []string{refusal(n, nil, errors.New("bad symbol"))}
	}
	return []string{"<created" + echo(n, nil) + "/>"}
}

// placeShares does what a child of <symbol> asks for.
func (x *Exchange) placeShares(sym string, n *node) error {
	if n.name != "account" || !n.only("id", "ref") || len(n.children) > 0 {
		return errors.New("unknown element, attribute or content")
	}
	ref, err1 := refOf(n)
	shares, err2 := decimal(trim(n.text), balanceBound)
	id := n.get("id")
	if err1 != nil || err2 != nil || shares.Sign() <= 0 || !accountID.MatchString(id) {
		return errors.New("bad id, number of shares or ref")
	}
	_, err := x.once(id, ref, "place "+sym+" "+show(shares), func() (*order, error) {
		return nil, x.place(sym, id, shares)
	})
	return err
}

// transaction answers a child of <transactions> (section 4).
func (x *Exchange) transaction(root, n *node, now int64) string {
	id := root.get("id") + root.get("account")
	if root.has("id") == root.has("account") || !accountID.MatchString(id) || x.accounts[id] == nil {
		return refusal(n, nil, errors.New("bad account"))
	}
	if !n.empty() {
		return refusal(n, nil, errors.New("content"))
	}
	if n.name == "order" && n.only(orderAttributes...) {
		o, err := x.placeOrder(id, n, now)
		if err != nil {
			return refusal(n, nil, err)
		}
		return fmt.Sprintf(`<opened%s id="%d"/>`, echo(n, nil), o.id)
	}
	if n.name != "query" && n.name != "cancel" || !n.only("id", "ref") {
		return refusal(n, nil, errors.New("unknown element or attribute"))
	}
	return x.queryOrCancel(id, n, now)
}

// queryOrCancel answers a <query> or a <cancel> of an account that exists.
func (x *Exchange) queryOrCancel(id string, n *node, now int64) string {
	answer, o := "status", (*order)(nil)
	about, err := x.named(id, n)
	switch {
	case err != nil:
	case n.name == "query":
		o, err = x.find(about)
	default:
		answer = "canceled"
		o, err = x.cancel(id, about, now)
	}
	if err != nil {
		return refusal(n, nil, err)
	}
	attributes := echo(n, nil)
	if !n.has("id") {
		attributes += fmt.Sprintf(` id="%d"`, o.id)
	}
	return "<" + answer + attributes + ">" + o.status() + "</" + answer + ">"
}

// orderID reads the number of an order, 0 where s is none.
func orderID(s string) int {
	if !digits.MatchString(s) {
		return 0
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return int(id)
}
