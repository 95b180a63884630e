package wire

import (
	"errors"
	"fmt"
	"strings"

	"outcry/internal/exchange"
)

// Request is a decoded frame: the commands that it asks for, and the places that
// their results have in the reply. The zero value is an empty request. It keeps
// no part of the frame that it was decoded from.
type Request struct {
	// Commands are to be executed in this order.
	Commands []exchange.Command

	slots     []slot
	malformed string // why the frame as a whole is refused; "" where it is not
}

// slot is one place in a reply.
type slot struct {
	command int    // index in Commands, -1 where the place holds an error anyway
	text    string // of that error
	echo    echo
}

// echo holds the attributes of a request that its reply repeats, as they were sent.
type echo struct {
	sym, amount, limit, id             string
	hasSym, hasAmount, hasLimit, hasID bool
}

func echoOf(e *element) (c echo) {
	c.sym, c.hasSym = e.attr("sym")
	c.amount, c.hasAmount = e.attr("amount")
	c.limit, c.hasLimit = e.attr("limit")
	c.id, c.hasID = e.attr("id")
	return c
}

// Decode reads a frame's XML into r, whose memory it uses anew. It cannot fail: a
// malformed document, an unknown root and so on become a request without
// commands, whose reply says what is wrong.
func (r *Request) Decode(frame []byte) {
	clear(r.Commands)
	*r = Request{Commands: r.Commands[:0], slots: r.slots[:0]}
	root, err := parseDocument(frame)
	if err != nil {
		r.malformed = "malformed XML: " + strings.TrimPrefix(err.Error(), "XML syntax error on ")
		return
	}
	switch root.name {
	case "create":
		r.create(root)
	case "transactions":
		r.transactions(root)
	default:
		r.malformed = fmt.Sprintf("unknown root element <%s>, only <create> and <transactions> are known", clip(root.name))
	}
}

// Refused returns how many places of the reply hold an error that no command
// leads to.
func (r *Request) Refused() int {
	if r.malformed != "" {
		return 1
	}
	n := 0
	for i := range r.slots {
		if r.slots[i].command < 0 {
			n++
		}
	}
	return n
}

// do adds a command and its place in the reply.
func (r *Request) do(c exchange.Command, e echo) {
	r.slots = append(r.slots, slot{command: len(r.Commands), echo: e})
	r.Commands = append(r.Commands, c)
}

// refuse adds an error to the reply.
func (r *Request) refuse(e echo, err error) {
	r.slots = append(r.slots, slot{command: -1, text: err.Error(), echo: e})
}

// create reads <create> (docs/PROTOCOL.md, section "create").
func (r *Request) create(root *element) {
	if err := onlyAttributes(root); err != nil {
		r.malformed = err.Error()
		return
	}
	for _, child := range root.children {
		switch child.name {
		case "account":
			r.account(child)
		case "symbol":
			r.symbol(child)
		default:
			r.refuse(echoOf(child), errUnknown(child, root))
		}
	}
}

// account reads an <account> that is to be opened.
func (r *Request) account(e *element) {
	c := exchange.Command{Kind: exchange.OpenAccount}
	err := first(onlyAttributes(e, "id", "balance"), noContent(e))
	if err == nil {
		c.Account, err = parseAttr(e, "id", exchange.ParseAccountID)
	}
	if err == nil {
		c.Balance, err = parseAttr(e, "balance", exchange.ParseBalance)
	}
	if err != nil {
		r.refuse(echoOf(e), err)
		return
	}
	r.do(c, echoOf(e))
}

// symbol reads a <symbol> and the shares to be placed in it. The symbol is made
// before its accounts; it has a place in the reply only where it has none.
func (r *Request) symbol(e *element) {
	echo := echoOf(e)
	if err := onlyAttributes(e, "sym"); err != nil {
		r.refuse(echo, err)
		return
	}
	sym, err := parseAttr(e, "sym", exchange.ParseSymbol)
	list := exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym}
	switch {
	case err != nil && len(e.children) == 0:
		r.refuse(echo, err)
	case err != nil:
	case len(e.children) == 0:
		r.do(list, echo)
	default:
		r.Commands = append(r.Commands, list)
	}
	for _, child := range e.children {
		r.placement(child, e, sym, err)
	}
}

// placement reads a child of <symbol>. symErr is what is wrong with the symbol.
func (r *Request) placement(e, parent *element, sym exchange.Symbol, symErr error) {
	echo := echoOf(e)
	if s, ok := parent.attr("sym"); ok {
		echo.sym, echo.hasSym = s, true
	}
	c := exchange.Command{Kind: exchange.PlaceShares, Symbol: sym}
	err := symErr
	switch {
	case err != nil:
	case e.name != "account":
		err = errUnknown(e, parent)
	default:
		err = first(onlyAttributes(e, "id"), noChildren(e))
	}
	if err == nil {
		c.Account, err = parseAttr(e, "id", exchange.ParseAccountID)
	}
	if err == nil {
		c.Placed, err = exchange.ParsePlacement(strings.Trim(string(e.text), " \t\r\n"))
	}
	if err != nil {
		r.refuse(echo, err)
		return
	}
	r.do(c, echo)
}

// transactions reads <transactions> (docs/PROTOCOL.md, section "transactions").
func (r *Request) transactions(root *element) {
	if err := onlyAttributes(root, "id", "account"); err != nil {
		r.malformed = err.Error()
		return
	}
	account, err := transactionsAccount(root)
	for _, child := range root.children {
		r.transaction(child, root, account, err)
	}
}

// transactionsAccount reads the account of <transactions>, which an older form of
// the protocol names in the attribute account.
func transactionsAccount(root *element) (exchange.AccountID, error) {
	id, hasID := root.attr("id")
	old, hasOld := root.attr("account")
	switch {
	case hasID && hasOld:
		return "", errors.New("<transactions> names its account twice, as id and as account")
	case hasOld:
		id = old
	case !hasID:
		return "", errors.New("<transactions> has no id")
	}
	return exchange.ParseAccountID(id)
}

// transaction reads a child of <transactions>. accountErr is what is wrong with
// the account.
func (r *Request) transaction(e, root *element, account exchange.AccountID, accountErr error) {
	c := exchange.Command{Account: account}
	err := accountErr
	if err == nil {
		switch e.name {
		case "order":
			err = decodeOrder(e, &c)
		case "query":
			err = decodeOrderID(e, exchange.QueryOrder, &c)
		case "cancel":
			err = decodeOrderID(e, exchange.CancelOrder, &c)
		default:
			err = errUnknown(e, root)
		}
	}
	if err != nil {
		r.refuse(echoOf(e), err)
		return
	}
	r.do(c, echoOf(e))
}

func decodeOrder(e *element, c *exchange.Command) error {
	c.Kind = exchange.PlaceOrder
	err := first(onlyAttributes(e, "sym", "amount", "limit"), noContent(e))
	if err == nil {
		c.Symbol, err = parseAttr(e, "sym", exchange.ParseSymbol)
	}
	if err == nil {
		_, err = parseAttr(e, "amount", func(s string) (side exchange.Side, err error) {
			c.Side, c.Shares, err = exchange.ParseAmount(s)
			return c.Side, err
		})
	}
	if err == nil {
		c.Limit, err = parseAttr(e, "limit", exchange.ParseLimit)
	}
	return err
}

func decodeOrderID(e *element, kind exchange.CommandKind, c *exchange.Command) error {
	c.Kind = kind
	err := first(onlyAttributes(e, "id"), noContent(e))
	if err == nil {
		c.Order, err = parseAttr(e, "id", exchange.ParseOrderID)
	}
	return err
}

// parseAttr parses an attribute that must be there.
func parseAttr[T any](e *element, name string, parse func(string) (T, error)) (T, error) {
	s, ok := e.attr(name)
	if !ok {
		var none T
		return none, fmt.Errorf("<%s> has no %s", e.name, name)
	}
	return parse(s)
}

// onlyAttributes returns an error that names an attribute other than the known.
func onlyAttributes(e *element, known ...string) error {
next:
	for _, a := range e.attrs {
		name := rawName(a.Name)
		for _, k := range known {
			if name == k {
				continue next
			}
		}
		return fmt.Errorf("<%s> has no attribute %s", e.name, clip(name))
	}
	return nil
}

// noChildren returns an error where an element has elements in it.
func noChildren(e *element) error {
	if len(e.children) > 0 {
		return fmt.Errorf("<%s> has no element <%s> in it", e.name, clip(e.children[0].name))
	}
	return nil
}

// noContent returns an error where an element has elements or text in it.
func noContent(e *element) error {
	if !isBlank(e.text) {
		return fmt.Errorf("<%s> has no text in it", e.name)
	}
	return noChildren(e)
}

// first returns the first error that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func errUnknown(e, parent *element) error {
	return fmt.Errorf("unknown element <%s> in <%s>", clip(e.name), parent.name)
}
