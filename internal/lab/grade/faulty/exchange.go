package faulty

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange has the accounts, books and orders. Callers of its methods hold mu, which the racing
// faults release for a moment.
type exchange struct {
	mu       sync.Mutex
	o        *Options
	now      int64 // time of the current frame
	accounts map[string]*account
	books    map[string]string // by symbol, the name of its book
	made     int               // number of <create> frames; it is part of the name of a mixed book
	resting  map[string][]*order
	orders   map[int]*order
	last     map[string]int // last order id under ""; by symbol with the fault ids-per-symbol
	restored bool           // true while frames of the journal are replayed
}

type account struct {
	cash, opened   *big.Rat
	shares, placed map[string]*big.Rat
}

func newExchange(o *Options) *exchange {
	return &exchange{o: o, accounts: map[string]*account{}, books: map[string]string{},
		resting: map[string][]*order{}, orders: map[int]*order{}, last: map[string]int{}}
}

// raceTime is how long a racing fault waits between its check and its action.
const raceTime = 20 * time.Millisecond

// race releases mu for a moment if the fault is switched on.
func (x *exchange) race(fault string) {
	if x.o.has(fault) && !x.restored {
		x.mu.Unlock()
		time.Sleep(raceTime)
		x.mu.Lock()
	}
}

// errHangUp means that the server closes the connection instead of replying.
var errHangUp = errors.New("hangs up")

// do executes a document and returns the reply. The error is errHangUp.
func (x *exchange) do(doc []byte, now int64) (string, error) {
	x.now = now
	root, err := parse(doc, x.o.has("document-types"))
	if err != nil {
		if x.o.has("malformed-half-done") && root != nil {
			x.children(root)
		}
		if x.o.has("malformed-hangs-up") {
			return "", errHangUp
		}
		return x.results(x.refuse("", "", err)), nil
	}
	if root.name == "create" && root.only() || root.name == "transactions" && root.only("id", "account") {
		return x.results(x.children(root)...), nil
	}
	return x.results(x.refuse("", "", fmt.Errorf("unknown root %s, or attribute of it", root.name))), nil
}

// childrenMost is how many children of a frame get an answer with the fault hundred-children.
const childrenMost = 100

// children executes the children of a root, in their order, and returns their answers.
func (x *exchange) children(root *node) (replies []string) {
	if root.name == "create" {
		x.made++
	}
	children := slices.Clone(root.children)
	if x.o.has("hundred-children") && len(children) > childrenMost {
		children = children[:childrenMost]
	}
	if x.o.has("by-kind") && root.name == "transactions" {
		kinds := []string{"order", "query", "cancel"}
		slices.SortStableFunc(children, func(a, b *node) int {
			return slices.Index(kinds, a.name) - slices.Index(kinds, b.name)
		})
	}
	for _, n := range children {
		var reply []string
		switch root.name {
		case "create":
			reply = x.create(n)
		case "transactions":
			reply = []string{x.transaction(root, n)}
		}
		if x.o.has("unknown-ignored") &&
			!slices.Contains([]string{"account", "symbol", "order", "query", "cancel"}, n.name) {
			continue
		}
		replies = append(replies, reply...)
		stops := map[string]string{"create": "create-stops", "transactions": "stops-at-error"}[root.name]
		if stops != "" && x.o.has(stops) && strings.HasPrefix(reply[len(reply)-1], "<error") {
			break
		}
	}
	return replies
}

func (x *exchange) results(replies ...string) string {
	root := "results"
	if x.o.Habits.ResultRoot {
		root = "result"
	}
	if len(replies) == 0 {
		return "<" + root + "/>"
	}
	return "<" + root + ">" + strings.Join(replies, "") + "</" + root + ">"
}

// refuse returns the <error> for a child.
func (x *exchange) refuse(name, attributes string, err error) string {
	if x.o.has("refused-with-id") && name == "order" {
		attributes += fmt.Sprintf(` id="%d"`, x.last[""]+1)
	}
	text := escape(err.Error())
	if x.o.has("no-error-text") {
		text = ""
	}
	return "<error" + attributes + ">" + text + "</error>"
}

// echo returns the attributes of n that a reply repeats; the value of sym comes from around, the enclosing symbol
// element.
func (x *exchange) echo(n, around *node) (s string) {
	for _, name := range []string{"sym", "amount", "limit", "id"} {
		switch {
		case name == "limit" && x.o.has("limit-not-repeated"):
		case name == "sym" && around != nil && around.has(name):
			s += ` sym="` + escape(around.get(name)) + `"`
		case n.has(name):
			s += " " + name + `="` + escape(n.get(name)) + `"`
		}
	}
	return s
}

// accountID reports whether id is a valid account id.
func (x *exchange) accountID(id string) bool {
	return accountID.MatchString(id) || x.o.has("letters-in-ids") && lenientID.MatchString(id)
}

// create executes a child of <create>, and returns its answers.
func (x *exchange) create(n *node) []string {
	if n.name == "symbol" {
		return x.symbol(n)
	}
	err := errors.New("unknown element, attribute or content")
	if n.name == "account" && n.only("id", "balance") && len(n.children) == 0 && strings.TrimSpace(n.text) == "" {
		err = x.open(n.get("id"), n.get("balance"))
	}
	return []string{x.created(n, nil, err)}
}

func (x *exchange) created(n, around *node, err error) string {
	if err != nil {
		return x.refuse(n.name, x.echo(n, around), err)
	}
	return "<created" + x.echo(n, around) + "/>"
}

func (x *exchange) open(id, balance string) error {
	v, err := x.decimal(balance, givenBound)
	switch {
	case err != nil:
		return err
	case !x.accountID(id):
		return errors.New("an account id must be made of digits")
	case v.Sign() < 0 && !x.o.has("negative-balance"):
		return errors.New("a balance must not be negative")
	case x.accounts[id] != nil && !x.o.has("account-overwritten"):
		return errors.New("the account exists already")
	}
	x.race("racing-account")
	a := &account{new(big.Rat), v, map[string]*big.Rat{}, map[string]*big.Rat{}}
	x.pay(a, v)
	x.accounts[id] = a
	return nil
}

// symbol executes a <symbol>, and returns an answer for each of its children, or one if it has none.
func (x *exchange) symbol(n *node) (replies []string) {
	sym := n.get("sym")
	if !n.only("sym") || !symbol.MatchString(sym) || x.o.has("letters-only") && strings.ContainsAny(sym, "0123456789") {
		err := errors.New("bad symbol, or unknown attribute")
		for _, child := range n.children {
			replies = append(replies, x.created(child, n, err))
		}
		if len(replies) == 0 || !n.only("sym") {
			return []string{x.created(n, nil, err)}
		}
		return replies
	}
	known := x.books[sym] != ""
	if !known {
		x.books[sym] = sym
		if x.o.has("mixed-books") {
			x.books[sym] = strconv.Itoa(x.made)
		}
	}
	for _, child := range n.children {
		err := errors.New("the symbol exists already")
		if !known || !x.o.has("symbol-once") {
			err = x.place(sym, child)
		}
		replies = append(replies, x.created(child, n, err))
	}
	if len(replies) == 0 {
		return []string{x.created(n, nil, nil)}
	}
	return replies
}

func (x *exchange) place(sym string, n *node) error {
	id := n.get("id")
	v, err := x.decimal(strings.Trim(n.text, " \t\r\n"), givenBound)
	switch {
	case n.name != "account" || !n.only("id") || len(n.children) > 0:
		return errors.New("unknown element, attribute or content")
	case err != nil:
		return err
	case v.Sign() <= 0:
		return errors.New("the number of shares must be positive")
	case !x.accountID(id):
		return errors.New("an account id must be made of digits")
	case x.accounts[id] == nil && x.o.has("deposit-for-nobody"):
		return nil
	case x.accounts[id] == nil:
		return errors.New("there is no such account")
	}
	a := x.accounts[id]
	if x.o.has("deposit-replaces") {
		a.shares[sym], a.placed[sym] = new(big.Rat), new(big.Rat)
	}
	a.add(sym, v)
	a.placed[sym] = sum(a.placed[sym], v)
	return nil
}

func (a *account) add(sym string, v *big.Rat) { a.shares[sym] = sum(a.shares[sym], v) }

// sum returns a + b; nil counts as 0.
func sum(a, b *big.Rat) *big.Rat {
	if a == nil {
		a = new(big.Rat)
	}
	return new(big.Rat).Add(a, b)
}

func minus(v *big.Rat) *big.Rat      { return new(big.Rat).Neg(v) }
func product(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
