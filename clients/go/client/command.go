package client

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"outcry/internal/door/xml/wire"
)

// OrderID is the number that the exchange gives an order, from 1 up. 0 is no order.
type OrderID uint64

// String returns its digits.
func (id OrderID) String() string { return strconv.FormatUint(uint64(id), 10) }

// Kind says what a command does.
type Kind int

// The kinds of command. The zero Kind is none.
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

// Command is one thing to be done. The functions below make each kind, with the fields
// that it has; nothing is checked before it is sent.
type Command struct {
	Kind    Kind
	Account string  // digits; "007" and "7" are two accounts
	Symbol  string  // A-Z, a-z, 0-9
	Shares  Decimal // of KindPlace, KindBuy and KindSell: more than 0
	Limit   Decimal // of KindBuy and KindSell: dollars a share, more than 0; may be 0 with Market. Of KindAmend: 0 stays
	Balance Decimal // of KindOpenAccount: dollars, 0 or more
	// of KindQuery, KindCancel and KindAmend, 0 where Ref names the order; of KindListOrders what they come after
	Order OrderID
	// Ref is a name that the caller makes for an order, an account that is opened, or a
	// placement, different for each of an account: 1 to 64 of A-Z a-z 0-9 . _ : -
	// The same command with the same ref is done once, however often it is sent.
	Ref string

	Instructions               // of KindBuy and KindSell; Report also of KindAmend
	Tick, Lot    Decimal       // of KindMakeSymbol: limits and amounts are multiples of them; 0 is not said
	Amount       Decimal       // of KindAmend: the new total, negative of an order that sells; 0 stays
	NewRef       string        // of KindAmend: its own ref
	After        time.Duration // of KindCancelAfter
	Fill         uint64        // of KindListFills: the number that they come after
}

// OpenAccount opens an account with a balance.
func OpenAccount(account string, balance Decimal) Command {
	return Command{Kind: KindOpenAccount, Account: account, Balance: balance}
}

// MakeSymbol makes a symbol, if it is new.
func MakeSymbol(symbol string) Command { return Command{Kind: KindMakeSymbol, Symbol: symbol} }

// MakeSymbolOf is MakeSymbol with a tick and a lot: the limits and amounts of all orders must be
// multiples of them. 0 says nothing. A symbol that exists keeps what it was made with: others are refused.
func MakeSymbolOf(symbol string, tick, lot Decimal) Command {
	return Command{Kind: KindMakeSymbol, Symbol: symbol, Tick: tick, Lot: lot}
}

// Place adds shares to an account's position, and makes the symbol if it is new.
func Place(symbol, account string, shares Decimal) Command {
	return Command{Kind: KindPlace, Symbol: symbol, Account: account, Shares: shares}
}

// Buy places an order to buy shares for limit dollars each, or less.
func Buy(account, symbol string, shares, limit Decimal) Command {
	return Command{Kind: KindBuy, Account: account, Symbol: symbol, Shares: shares, Limit: limit}
}

// Sell places an order to sell shares for limit dollars each, or more.
func Sell(account, symbol string, shares, limit Decimal) Command {
	return Command{Kind: KindSell, Account: account, Symbol: symbol, Shares: shares, Limit: limit}
}

// Query asks what has become of an order.
func Query(account string, order OrderID) Command {
	return Command{Kind: KindQuery, Account: account, Order: order}
}

// QueryRef is Query for the account's order with a ref.
func QueryRef(account, ref string) Command {
	return Command{Kind: KindQuery, Account: account, Ref: ref}
}

// Cancel cancels what is open of one of the account's orders.
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

// String says in words what the command does.
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

// price says at what an order trades.
func (c *Command) price() string {
	if c.Market && c.Limit == (Decimal{}) {
		return "market"
	}
	return c.Limit.String()
}

// orders reports whether the command is an order.
func (c *Command) orders() bool { return c.Kind == KindBuy || c.Kind == KindSell }

// signed returns the shares of an order as the protocol has them: negative where it sells.
func (c *Command) signed() Decimal {
	if c.Kind == KindSell {
		return c.Shares.Neg()
	}
	return c.Shares
}

// creates reports whether the command stands in a <create>.
func (c *Command) creates() bool { return c.Kind <= KindPlace }

// ownRef returns where the command has the ref that makes it safe to be sent again, nil if
// there is no such ref.
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

// namesOrder reports whether the command is about one order that there is.
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

// repeatable reports whether a frame does nothing twice when it is sent twice, and is
// answered alike.
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

// check returns why commands are no frame, nil if they are one. Most is left to the
// exchange to say: a frame whose elements all have something in their attributes is
// what is needed to get an answer for each that can be told from the exchange's last
// words. But a negative number of shares would be the other side's order.
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
			return fmt.Errorf("client: ref %.80q is not 1 to 64 of A-Z a-z 0-9 . _ : -", c.Ref)
		case c.Ref != "" && c.Kind == KindMakeSymbol:
			return fmt.Errorf("client: %v: a symbol takes no ref", c)
		case c.Ref != "" && c.ownRef() != &c.Ref && !c.namesOrder():
			return fmt.Errorf("client: %v: it takes no ref", c)
		case c.namesOrder() && (c.Order == 0) == (c.Ref == ""):
			return fmt.Errorf("client: %v: an order is named by its number or by its ref", c)
		case c.creates() != commands[0].creates():
			return fmt.Errorf("client: %v and %v do not go into one frame", commands[0], c)
		case !c.creates() && c.Account != commands[0].Account:
			return fmt.Errorf("client: accounts %s and %s do not go into one frame", commands[0].Account, c.Account)
		}
		if err := c.checkInstructions(); err != nil {
			return err
		}
	}
	return nil
}

// elements returns how many XML elements a frame has.
func elements(commands []Command) int {
	n := 1 + len(commands) // with the root
	for i := range commands {
		if commands[i].Kind == KindPlace {
			n++ // in a <symbol>
		}
	}
	return n
}

// plain reports whether every character stands for itself in XML.
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

// encode returns the XML of a frame with the commands, which check has seen.
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
