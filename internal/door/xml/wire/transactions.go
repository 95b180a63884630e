package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"outcry/internal/exchange"
)

// transactions reads <transactions> (docs/PROTOCOL.md, section "transactions").
func (r *Request) transactions(root *element) {
	if err := onlyAttributes(root, "id", "account"); err != nil {
		r.refusal = err.Error()
		return
	}
	account, err := transactionsAccount(root)
	r.actsFor = account
	r.grow(len(root.children))
	for _, child := range root.children {
		c := exchange.Command{Account: account}
		if err := first(err, r.decodeTransaction(child, root, &c)); err != nil {
			r.refuse(child, sentWith(child), err)
			continue
		}
		r.do(c, sentWith(child))
	}
}

// transactionsAccount reads the account of <transactions>. An older form of the protocol names it in the
// attribute account.
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

// decodeTransaction reads a child of <transactions>.
func (r *Request) decodeTransaction(e, root *element, c *exchange.Command) error {
	switch e.name {
	case "order":
		return r.decodeOrder(e, c)
	case "query":
		return decodeOrderID(e, exchange.QueryOrder, c)
	case "cancel":
		return decodeOrderID(e, exchange.CancelOrder, c)
	case "amend":
		return decodeAmend(e, c)
	case "cancel-all":
		c.Kind = exchange.CancelAll
		return first(onlyAttributes(e, "sym"), noContent(e), optional(e, "sym", exchange.ParseSymbol, &c.Symbol))
	case "cancel-after":
		return decodeSwitch(e, c)
	case "account":
		c.Kind = exchange.ShowAccount
		return first(onlyAttributes(e), noContent(e))
	case "orders":
		return decodeList(e, exchange.ListOrders, c, "sym", "after")
	case "fills":
		return decodeList(e, exchange.ListFills, c, "after")
	}
	return errUnknown(e, root)
}

// decodeRef reads the ref of an element; it returns "" if the element has no ref.
func decodeRef(e *element) (exchange.Ref, error) {
	s, ok := e.attr("ref")
	if !ok {
		return "", nil
	}
	return exchange.ParseRef(s)
}

// decodeOrderID reads an element that only names an order: a <query> or a <cancel>.
func decodeOrderID(e *element, kind exchange.CommandKind, c *exchange.Command) error {
	c.Kind = kind
	return first(onlyAttributes(e, "id", "ref"), noContent(e), decodeNamed(e, c))
}

// decodeNamed reads the id or the ref by which an element names an order.
func decodeNamed(e *element, c *exchange.Command) (err error) {
	_, hasID := e.attr("id")
	_, hasRef := e.attr("ref")
	switch {
	case hasID && hasRef:
		err = fmt.Errorf("<%s> names its order twice, by id and by ref", e.name)
	case hasRef:
		c.Ref, err = decodeRef(e)
	default:
		c.Order, err = parseAttr(e, "id", exchange.ParseOrderID)
	}
	return err
}

// decodeAmend reads an <amend>.
func decodeAmend(e *element, c *exchange.Command) error {
	c.Kind = exchange.AmendOrder
	err := first(onlyAttributes(e, "id", "ref", "amount", "limit", "report", "newref"), noContent(e), decodeNamed(e, c),
		optionally(e, "amount", c, readAmount), optionally(e, "limit", c, readLimit), optionally(e, "report", c, readReport))
	if err != nil {
		return err
	}
	if c.Shares == 0 && c.Limit == 0 {
		return errors.New("<amend> has neither an amount nor a limit")
	}
	var again exchange.Ref
	if err := optional(e, "newref", exchange.ParseRef, &again); err != nil {
		return fmt.Errorf("new%w", err)
	}
	if again != "" {
		c.More = &exchange.CommandMore{NewRef: again}
	}
	return nil
}

// decodeSwitch reads a <cancel-after>.
func decodeSwitch(e *element, c *exchange.Command) error {
	c.Kind = exchange.SetSwitch
	if err := first(onlyAttributes(e, "seconds"), noContent(e)); err != nil {
		return err
	}
	seconds, err := parseAttr(e, "seconds", parseSeconds)
	c.More = &exchange.CommandMore{Seconds: seconds}
	return err
}

// decodeList reads an <orders> or a <fills>, which accepts the named attributes.
func decodeList(e *element, kind exchange.CommandKind, c *exchange.Command, names ...string) error {
	c.Kind = kind
	var more exchange.CommandMore
	err := first(onlyAttributes(e, names...), noContent(e), optional(e, "sym", exchange.ParseSymbol, &c.Symbol),
		optional(e, "after", parseAfter, &more.After))
	if _, more.HasAfter = e.attr("after"); more.HasAfter {
		c.More = &more
	}
	return err
}

// decodeRules reads the optional tick and lot of a <symbol>.
func decodeRules(e *element, c *exchange.Command) error {
	var rules exchange.SymbolRules
	err := first(optional(e, "tick", parseTick, &rules.Tick), optional(e, "lot", parseLot, &rules.Lot))
	if rules != (exchange.SymbolRules{}) {
		c.More = &exchange.CommandMore{Rules: rules}
	}
	return err
}

// optional parses an attribute into to, or does nothing if it is absent.
func optional[T any](e *element, name string, parse func(string) (T, error), to *T) (err error) {
	if s, ok := e.attr(name); ok {
		*to, err = parse(s)
	}
	return err
}

// optionally reads an attribute into a command, or does nothing if it is absent.
func optionally(e *element, name string, c *exchange.Command, read func(*exchange.Command, string) error) error {
	if s, ok := e.attr(name); ok {
		return read(c, s)
	}
	return nil
}

// parseTick and parseLot parse a decimal in the same way as a limit. Their errors name the value.
func parseTick(s string) (exchange.Price, error) {
	tick, err := exchange.ParseLimit(s)
	return tick, renamed("tick", err)
}

func parseLot(s string) (exchange.Shares, error) {
	lot, err := exchange.ParseLimit(s)
	return exchange.Shares(lot), renamed("lot", err)
}

// renamed rewrites an error about a limit as one about the value with the given name.
func renamed(name string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(name + strings.TrimPrefix(err.Error(), "limit"))
}

// secondsMax is the largest value of <cancel-after> and of the timeout of a <session>: one day.
const secondsMax = 86_400

// parseSeconds parses the seconds of a <cancel-after>. The error names the value.
func parseSeconds(s string) (int, error) {
	n, err := parseWhole(s, secondsMax)
	if err != nil {
		return 0, fmt.Errorf("seconds %s is not a whole number from 0 to %d", strconv.Quote(clip(s)), secondsMax)
	}
	return int(n), nil
}

// parseAfter parses the value of after: a list begins with the next entry after it. The error names the
// value.
func parseAfter(s string) (uint64, error) {
	n, err := parseWhole(s, math.MaxInt64)
	if err != nil {
		return 0, fmt.Errorf("after %s is not a whole number of 0 or more", strconv.Quote(clip(s)))
	}
	return n, nil
}

// parseWhole parses a decimal integer from 0 to max; leading zeros are allowed, a sign is not.
func parseWhole(s string, max uint64) (uint64, error) {
	if strings.HasPrefix(s, "+") {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err == nil && n > max {
		err = strconv.ErrRange
	}
	return n, err
}
