package client

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"outcry/internal/door/xml/wire"
)

// OrderID is the number that the exchange gives an order, starting at 1. 0 means no order.
type OrderID uint64

// String returns the number in decimal.
func (id OrderID) String() string { return strconv.FormatUint(uint64(id), 10) }

// Kind says what a command does.
type Kind int

// The kinds of command. The zero Kind is invalid.
const (
	KindOpenAccount Kind = iota + 1
	KindMakeSymbol
	KindPlace
	KindBuy
	KindSell
	KindQuery
	KindCancel
	KindAmend
	KindCancelAll
	KindCancelAfter
	KindShowAccount
	KindListOrders
	KindListFills
)

// Command is one command of a frame. The functions below create each kind with the fields that it needs.
// Commands are checked only when they are sent.
type Command struct {
	Kind    Kind
	Account string  // digits; "007" and "7" are two accounts
	Symbol  string  // A-Z, a-z, 0-9
	Shares  Decimal // for KindPlace, KindBuy and KindSell: greater than 0
	// for KindBuy and KindSell: dollars a share, above 0; may be 0 with Market. For KindAmend: 0 keeps the limit
	Limit   Decimal
	Balance Decimal // of KindOpenAccount: dollars, 0 or more
	// for KindQuery, KindCancel and KindAmend, 0 if Ref names the order; for KindListOrders: list orders after this one
	Order OrderID
	// Ref is a name that the caller chooses for an order, an account that is opened, or a placement. It must be unique
	// within the account: 1 to 64 of A-Z a-z 0-9 . _ : - The exchange executes the same command with the same ref only
	// once, no matter how often it is sent.
	Ref string

	Instructions               // for KindBuy and KindSell; Report also for KindAmend
	Tick, Lot    Decimal       // for KindMakeSymbol: limits must be multiples of Tick, amounts of Lot; 0 omits the rule
	Amount       Decimal       // of KindAmend: the new total, negative for a sell order; 0 keeps the amount
	NewRef       string        // for KindAmend: the amend's own ref
	After        time.Duration // of KindCancelAfter
	Fill         uint64        // of KindListFills: list fills after this number
}

// OpenAccount opens an account with a balance.
func OpenAccount(account string, balance Decimal) Command {
	return Command{Kind: KindOpenAccount, Account: account, Balance: balance}
}

// MakeSymbol creates a symbol if it does not exist.
func MakeSymbol(symbol string) Command { return Command{Kind: KindMakeSymbol, Symbol: symbol} }

// MakeSymbolOf is MakeSymbol with a tick and a lot: the limits and amounts of all orders must be multiples
// of them. 0 leaves the value out. An existing symbol keeps its tick and lot; different ones are refused.
func MakeSymbolOf(symbol string, tick, lot Decimal) Command {
	return Command{Kind: KindMakeSymbol, Symbol: symbol, Tick: tick, Lot: lot}
}

// Place adds shares to an account's position, and creates the symbol if it does not exist.
func Place(symbol, account string, shares Decimal) Command {
	return Command{Kind: KindPlace, Symbol: symbol, Account: account, Shares: shares}
}

// Buy returns an order to buy shares for at most limit dollars each.
func Buy(account, symbol string, shares, limit Decimal) Command {
	return Command{Kind: KindBuy, Account: account, Symbol: symbol, Shares: shares, Limit: limit}
}

// Sell returns an order to sell shares for at least limit dollars each.
func Sell(account, symbol string, shares, limit Decimal) Command {
	return Command{Kind: KindSell, Account: account, Symbol: symbol, Shares: shares, Limit: limit}
}

// Query asks for the status of an order.
func Query(account string, order OrderID) Command {
	return Command{Kind: KindQuery, Account: account, Order: order}
}

// QueryRef is Query for the account's order with a ref.
func QueryRef(account, ref string) Command {
	return Command{Kind: KindQuery, Account: account, Ref: ref}
}

// Cancel cancels the open part of one of the account's orders.
func Cancel(account string, order OrderID) Command {
	return Command{Kind: KindCancel, Account: account, Order: order}
}

// CancelRef is Cancel for the account's order with a ref.
func CancelRef(account, ref string) Command {
	return Command{Kind: KindCancel, Account: account, Ref: ref}
}

// WithRef returns the command with a ref.
func (c Command) WithRef(ref string) Command {
	c.Ref = ref
	return c
}

// String describes the command in words.
func (c Command) String() string {
	name := "order " + c.Order.String()
	if c.Order == 0 {
		name = "the order with ref " + c.Ref
	}
	text, ref := "", c.Ref
	switch c.Kind {
	case KindOpenAccount:
		text = fmt.Sprintf("open account %s with %v", c.Account, c.Balance)
	case KindMakeSymbol:
		text = "make symbol " + c.Symbol
	case KindPlace:
		text = fmt.Sprintf("place %v %s with account %s", c.Shares, c.Symbol, c.Account)
	case KindBuy:
		text = fmt.Sprintf("account %s buys %v %s at %s", c.Account, c.Shares, c.Symbol, c.price())
	case KindSell:
		text = fmt.Sprintf("account %s sells %v %s at %s", c.Account, c.Shares, c.Symbol, c.price())
	case KindQuery:
		return fmt.Sprintf("account %s queries %s", c.Account, name)
	case KindCancel:
		return fmt.Sprintf("account %s cancels %s", c.Account, name)
	case KindAmend:
		text, ref = fmt.Sprintf("account %s amends %s", c.Account, name), c.NewRef
	case KindCancelAll:
		return fmt.Sprintf("account %s cancels all orders", c.Account)
	case KindCancelAfter:
		return fmt.Sprintf("account %s cancels all orders after %v", c.Account, c.After)
	case KindShowAccount:
		return "show account " + c.Account
	case KindListOrders:
		return "list the orders of account " + c.Account
	case KindListFills:
		return "list the fills of account " + c.Account
	default:
		return "no command"
	}
	if ref != "" {
		text += " (ref " + ref + ")"
	}
	return text
}

// price returns the text for the price of an order.
func (c *Command) price() string {
	if c.Market && c.Limit == (Decimal{}) {
		return "market"
	}
	return c.Limit.String()
}

// orders reports whether the command is an order.
func (c *Command) orders() bool { return c.Kind == KindBuy || c.Kind == KindSell }

// signed returns the shares of an order as the protocol writes them: negative for a sell order.
func (c *Command) signed() Decimal {
	if c.Kind == KindSell {
		return c.Shares.Neg()
	}
	return c.Shares
}

// creates reports whether the command belongs in a <create> element.
func (c *Command) creates() bool { return c.Kind <= KindPlace }

// ownRef returns a pointer to the ref that makes the command safe to repeat, or nil if its kind has no such
// ref.
func (c *Command) ownRef() *string {
	switch {
	case c.Kind == KindAmend:
		return &c.NewRef
	case c.Kind == KindOpenAccount || c.Kind == KindPlace || c.orders():
		return &c.Ref
	}
	return nil
}

// takesSymbol reports whether the command names a symbol.
func (c *Command) takesSymbol() bool {
	return c.Kind == KindMakeSymbol || c.Kind == KindPlace || c.orders()
}

// namesOrder reports whether the command is about one existing order.
func (c *Command) namesOrder() bool {
	return c.Kind == KindQuery || c.Kind == KindCancel || c.Kind == KindAmend
}

// asks reports whether the command changes nothing.
func (c *Command) asks() bool {
	switch c.Kind {
	case KindQuery, KindShowAccount, KindListOrders, KindListFills:
		return true
	}
	return false
}

// repeatable reports whether a frame that is sent twice has the same effect and the same answer as if it
// were sent once.
func repeatable(commands []Command) bool {
	for i := range commands {
		c := &commands[i]
		ref := c.ownRef()
		if ref == nil && !c.asks() && c.Kind != KindMakeSymbol || ref != nil && *ref == "" {
			return false
		}
	}
	return true
}

// changes reports whether a frame may change anything.
func changes(commands []Command) bool {
	for i := range commands {
		if !commands[i].asks() {
			return true
		}
	}
	return false
}

// check returns why the commands are not a valid frame, or nil if they are. Most checks are left to the
// exchange. check makes sure that the exchange answers every command, and that these answers differ from
// its last words, for which each element needs an attribute with a value. It also refuses numbers of shares
// that are not positive, since a negative one would change the order's side.
func check(commands []Command) error {
	if len(commands) == 0 {
		return errors.New("client: there are no commands to send")
	}
	if n := elements(commands); n > wire.ElementsMax {
		return fmt.Errorf("client: %s: a frame of %d XML elements is over the limit of %d", describe(commands), n,
			wire.ElementsMax)
	}
	for i := range commands {
		c := &commands[i]
		switch {
		case c.Kind < KindOpenAccount || c.Kind > KindListFills:
			return fmt.Errorf("client: there is no command of kind %d", c.Kind)
		case c.Account == "" && c.Kind != KindMakeSymbol, !plain(c.Account):
			return fmt.Errorf("client: %.200q: %.80q is not an account", c.String(), c.Account)
		case c.Symbol == "" && c.takesSymbol(), !plain(c.Symbol):
			return fmt.Errorf("client: %.200q: %.80q is not a symbol", c.String(), c.Symbol)
		case c.Shares.Sign() <= 0 && (c.Kind == KindPlace || c.orders()):
			return fmt.Errorf("client: %v: the number of shares is not more than 0", c)
		case c.Ref != "" && !validRef(c.Ref):
			return fmt.Errorf("client: ref %.80q must have 1 to 64 characters of A-Z a-z 0-9 . _ : -", c.Ref)
		case c.Ref != "" && c.Kind == KindMakeSymbol:
			return fmt.Errorf("client: %v: a symbol cannot have a ref", c)
		case c.Ref != "" && c.ownRef() != &c.Ref && !c.namesOrder():
			return fmt.Errorf("client: %v: it cannot have a ref", c)
		case c.namesOrder() && (c.Order == 0) == (c.Ref == ""):
			return fmt.Errorf("client: %v: give either the number or the ref of the order", c)
		case c.creates() != commands[0].creates():
			return fmt.Errorf("client: %v and %v cannot be sent in one frame", commands[0], c)
		case !c.creates() && c.Account != commands[0].Account:
			return fmt.Errorf("client: accounts %s and %s cannot be sent in one frame", commands[0].Account, c.Account)
		}
		if err := c.checkInstructions(); err != nil {
			return err
		}
	}
	return nil
}

// elements returns how many XML elements a frame has.
func elements(commands []Command) int {
	n := 1 + len(commands) // including the root element
	for i := range commands {
		if commands[i].Kind == KindPlace {
			n++ // inside a <symbol>
		}
	}
	return n
}

// plain reports whether the text needs no escaping in XML.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func validRef(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

// encode returns the XML of a frame. The commands must have passed check.
func encode(commands []Command) []byte {
	if commands[0].creates() {
		return encodeCreate(commands)
	}
	t := wire.NewTransactions(commands[0].Account)
	for i := range commands {
		commands[i].appendTo(t)
	}
	if padded(commands) {
		t.Query("0")
	}
	return t.Append(nil)
}

func encodeCreate(commands []Command) []byte {
	create := new(wire.Create)
	for i := range commands {
		switch c := &commands[i]; c.Kind {
		case KindOpenAccount:
			create.Account(wire.Account{ID: c.Account, Balance: c.Balance.String(), Ref: c.Ref})
		case KindMakeSymbol:
			create.SymbolOf(c.Symbol, given(c.Tick), given(c.Lot))
		case KindPlace:
			create.Symbol(c.Symbol, wire.Placement{Account: c.Account, Shares: c.Shares.String(), Ref: c.Ref})
		}
	}
	return create.Append(nil)
}
