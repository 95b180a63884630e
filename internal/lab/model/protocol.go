package model

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The grammars of section 2. A number may have up to 8 fractional digits.
var (
	digits    = regexp.MustCompile(`^[0-9]+$`)
	accountID = regexp.MustCompile(`^[0-9]{1,64}$`)
	symbol    = regexp.MustCompile(`^[A-Za-z0-9]{1,32}$`)
	number    = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]{0,8})?|\.[0-9]{1,8})$`)
)

// decimal reads a decimal of section 2 in units of 10^-8. It returns an error if the absolute value is
// not below bound.
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

// The limits of section 2 for balances and deposits, and for amounts and limits of orders. Values must be
// below them.
var (
	balanceBound = tenTo(18 + 8)
	orderBound   = product(big.NewInt(9), tenTo(10+8))
)

// Do answers a frame as Connection.Do does, always on the same connection.
func (x *Exchange) Do(doc []byte, now int64) []byte { return x.alone.Do(doc, now) }

// Do executes the XML of one frame and returns the XML of the reply, both without length lines. now is
// the time of everything in the frame, in seconds since the epoch. It never fails: errors are part of the
// reply (section 6), and an erroneous request changes nothing. The model words its error texts
// independently.
func (c *Connection) Do(doc []byte, now int64) []byte {
	x := c.x
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
			replies = append(replies, c.transaction(root, child, now))
		}
	case root.name == "session" && root.only("cancel", "timeout"):
		return c.session(root)
	default:
		return []byte("<results><error>unknown root or attribute</error></results>")
	}
	if len(replies) == 0 {
		return []byte("<results/>")
	}
	return []byte("<results>" + strings.Join(replies, "") + "</results>")
}

// escape returns s escaped for an attribute value, so that it reads back unchanged.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;",
		"\t", "&#x9;", "\n", "&#xA;", "\r", "&#xD;").Replace(s)
}

// repeatedAttributes lists the request attributes that a reply repeats, in reply order.
var repeatedAttributes = []string{
	"sym",
	"amount",
	"limit",
	"type",
	"tif",
	"post",
	"stp",
	"cod",
	"report",
	"tick",
	"lot",
	"seconds",
	"after",
	"id",
	"ref",
	"newref",
}

// echo returns the request attributes that the reply repeats. sym comes from the enclosing symbol
// element, if there is one with a sym.
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

// repeated returns an attribute's value as the reply repeats it. An erroneous value longer than 128 bytes
// is cut to 64 bytes and an ellipsis.
func repeated(n *node, name string) string {
	s := n.get(name)
	good := false
	switch n.name + " " + name {
	case "order amount", "amend amount":
		amount, err := decimal(s, orderBound)
		good = err == nil && amount.Sign() != 0
	case "order limit", "amend limit", "symbol tick", "symbol lot":
		limit, err := decimal(s, orderBound)
		good = err == nil && limit.Sign() > 0
	case "query id", "cancel id", "amend id":
		good = orderID(s) > 0
	case "cancel-after seconds", "orders after", "fills after":
		good = digits.MatchString(s)
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

// refusal returns the <error> for the request n, with err as its text.
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

// openAccount executes an <account> directly under <create>.
func (x *Exchange) openAccount(n *node) error {
	ref, err1 := refOf(n, "ref")
	balance, err2 := decimal(n.get("balance"), balanceBound)
	id := n.get("id")
	if err1 != nil || err2 != nil || balance.Sign() < 0 || !accountID.MatchString(id) {
		return errors.New("bad id, balance or ref")
	}
	_, err := x.once(id, ref, "account "+show(balance), func() (refUse, error) {
		return refUse{}, x.open(id, product(balance, tenTo(8)))
	})
	return err
}

// createSymbol answers a <symbol>: once for each child, or once for itself if it has no children. The
// symbol is made before the children are read.
func (x *Exchange) createSymbol(n *node) (replies []string) {
	tick, err1 := stepOf(n, "tick")
	lot, err2 := stepOf(n, "lot")
	if !n.only("sym", "tick", "lot") || err1 != nil || err2 != nil {
		return []string{refusal(n, nil, errors.New("unknown attribute, or bad tick or lot"))}
	}
	good := symbol.MatchString(n.get("sym"))
	if good {
		if err := x.make(n.get("sym"), tick, lot); err != nil {
			return []string{refusal(n, nil, err)}
		}
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

// stepOf reads the tick or lot of a <symbol>. It returns nil if the attribute is missing.
func stepOf(n *node, name string) (*big.Int, error) {
	if !n.has(name) {
		return nil, nil
	}
	v, err := decimal(n.get(name), orderBound)
	if err == nil && v.Sign() <= 0 {
		err = errors.New("not more than 0")
	}
	return v, err
}

// placeShares executes a child of <symbol>.
func (x *Exchange) placeShares(sym string, n *node) error {
	if n.name != "account" || !n.only("id", "ref") || len(n.children) > 0 {
		return errors.New("unknown element, attribute or content")
	}
	ref, err1 := refOf(n, "ref")
	shares, err2 := decimal(trim(n.text), balanceBound)
	id := n.get("id")
	if err1 != nil || err2 != nil || shares.Sign() <= 0 || !accountID.MatchString(id) {
		return errors.New("bad id, number of shares or ref")
	}
	_, err := x.once(id, ref, "place "+sym+" "+show(shares), func() (refUse, error) {
		return refUse{}, x.place(sym, id, shares)
	})
	return err
}

// childAttributes maps each child of <transactions> to the attributes it may have.
var childAttributes = map[string][]string{
	"order":        {"sym", "amount", "limit", "type", "tif", "post", "stp", "cod", "report", "ref"},
	"query":        {"id", "ref"},
	"cancel":       {"id", "ref"},
	"amend":        {"id", "ref", "amount", "limit", "report", "newref"},
	"cancel-all":   {"sym"},
	"cancel-after": {"seconds"},
	"account":      {},
	"orders":       {"sym", "after"},
	"fills":        {"after"},
}

// transaction answers a child of <transactions>.
func (c *Connection) transaction(root, n *node, now int64) string {
	id := root.get("id") + root.get("account")
	if root.has("id") == root.has("account") || !accountID.MatchString(id) || c.x.accounts[id] == nil {
		return refusal(n, nil, errors.New("bad account"))
	}
	names, known := childAttributes[n.name]
	if !n.empty() || !known || !n.only(names...) {
		return refusal(n, nil, errors.New("content, or unknown element or attribute"))
	}
	switch n.name {
	case "order":
		o, err := c.placeOrder(id, n, now)
		switch {
		case err != nil:
			return refusal(n, nil, err)
		case n.has("report"):
			return fmt.Sprintf(`<opened%s id="%d">%s</opened>`, echo(n, nil), o.id, o.report)
		}
		return fmt.Sprintf(`<opened%s id="%d"/>`, echo(n, nil), o.id)
	case "query", "cancel":
		return c.x.queryOrCancel(id, n, now)
	case "amend":
		return c.x.amend(id, n, now)
	}
	return c.x.about(id, n, now)
}

// about answers requests about an account as a whole rather than one order. The account exists.
func (x *Exchange) about(id string, n *node, now int64) string {
	sym, after, seconds := n.get("sym"), wholeOf(n, "after"), wholeOf(n, "seconds")
	switch {
	case n.has("sym") && !symbol.MatchString(sym), n.has("after") && after < 0,
		n.name == "cancel-after" && (seconds < 0 || seconds > 86_400):
		return refusal(n, nil, errors.New("bad value"))
	case n.has("sym") && x.symbols[sym] == nil:
		return refusal(n, nil, errors.New("no such symbol"))
	}
	switch n.name {
	case "cancel-all":
		count := 0
		for _, canceled := range x.CancelAll(id, sym, now) {
			count += canceled.Orders
		}
		return fmt.Sprintf(`<canceled-all%s count="%d"/>`, echo(n, nil), count)
	case "cancel-after":
		x.setSwitch(id, seconds, now)
		return "<cancel-after" + echo(n, nil) + "/>"
	case "account":
		return x.showAccount(id)
	case "orders":
		return listOf("orders", x.listOrders(id, sym, after))
	}
	return listOf("fills", x.listFills(id, after))
}

// listOf returns an element that contains list.
func listOf(name, list string) string {
	if list == "" {
		return "<" + name + "/>"
	}
	return "<" + name + ">" + list + "</" + name + ">"
}

// wholeOf reads an attribute that is a whole number. It returns -1 if the attribute is missing.
func wholeOf(n *node, name string) int {
	v, err := strconv.ParseInt(n.get(name), 10, 64)
	if err != nil || !digits.MatchString(n.get(name)) {
		return -1
	}
	return int(v)
}

// queryOrCancel answers a <query> or a <cancel>. The account exists.
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
	return "<" + answer + attributes + ">" + o.status(math.MaxInt) + "</" + answer + ">"
}

// orderID reads an order id. It returns 0 if s is not one.
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
