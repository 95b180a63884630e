package wire

import (
	"fmt"
	"slices"
	"strings"

	"outcry/internal/exchange"
)

// Request is a decoded frame: its commands, and the places of their answers in the reply. The zero value
// is an empty request. A Request retains no part of the frame. It is not safe for concurrent use.
type Request struct {
	// Connectionless means that frames do not arrive over a connection of the client, as with HTTP, so that orders cannot
	// be canceled when it ends. It must be set before Decode.
	Connectionless bool

	// Commands are to be executed in this order. Decode fills them. Callers must not change them between
	// Decode and AppendReply. The names in them are copies, which callers may retain.
	Commands []exchange.Command

	onDisconnect bool          // default for orders without the attribute cod: see CancelOnDisconnect
	session      *sessionFrame // contents of a <session> frame; nil for every other frame

	slots   []slot
	echoes  []byte // repeated attributes, encoded for the reply, of the slots whose sent is nil
	refusal string // why the frame is refused as a whole; "" if it is not
	denied  int    // number of slots whose commands Judge removed

	// What the frame is for. Set only by decodeDocument: JudgeMalformed needs it only for frames with
	// errors, which the scanner never accepts. creates is true for <create>, false for <transactions>.
	creates bool
	actsFor exchange.AccountID // account of <transactions>; "" if it is missing or invalid

	// The last names that the scanner read, in this frame or an earlier one; see scanner.account.
	lastAccount exchange.AccountID
	lastSymbol  exchange.Symbol
}

// slot is one place in a reply.
type slot struct {
	command int    // index in Commands; -1 if the place holds an error without a command
	text    string // text of that error
	// symbol is the index of the command that makes the symbol which this place's command depends on;
	// -1 if it depends on none. around is set in the first place of a <symbol> with rules: the
	// repeated attributes of the <symbol>. If the rules are refused, the one error for the whole
	// <symbol> appears there.
	symbol int
	around *sentAttrs
	// sent holds the attributes that the reply repeats. If it is nil, they are in echoes, from the
	// previous slot's echoEnd to this slot's.
	sent    *sentAttrs
	echoEnd int
}

// Decode reads a frame's XML into r and reuses the memory of r. names caches the names that the sender used last; it
// may be nil. It does not fail: for a malformed document, an unknown root element and the like, r becomes a request
// without commands whose reply describes the error.
func (r *Request) Decode(frame []byte, names *exchange.Names) {
	r.reset()
	if s := (scanner{r: r, xml: frame, names: names}); !s.scan() {
		r.reset()
		r.decodeDocument(frame)
	}
}

// reset empties r and drops all references to an earlier frame, except for lastAccount and lastSymbol.
func (r *Request) reset() {
	clear(r.Commands)
	clear(r.slots)
	r.Commands, r.slots, r.echoes, r.refusal, r.denied = r.Commands[:0], r.slots[:0], r.echoes[:0], "", 0
	r.creates, r.actsFor, r.session = false, "", nil
}

// decodeDocument decodes a frame of any form into r, which must be empty.
func (r *Request) decodeDocument(frame []byte) {
	root, err := parseDocument(frame, ElementsMax)
	if err != nil {
		r.refusal = "malformed XML: " + strings.TrimPrefix(err.Error(), "XML syntax error on ")
		return
	}
	switch root.name {
	case "create":
		r.create(root)
	case "transactions":
		r.transactions(root)
	case "session":
		r.connection(root)
	default:
		r.refusal = fmt.Sprintf("unknown root element <%s>, only <create> and <transactions> are known", clip(root.name))
	}
}

// Refused returns how many places of the reply hold an error that Decode found, and so have no command. Places
// whose commands Judge removed do not count.
func (r *Request) Refused() int {
	if r.refusal != "" {
		return 1
	}
	n := 0
	for i := range r.slots {
		if r.slots[i].command < 0 {
			n++
		}
	}
	return n - r.denied
}

// do adds a command and its place in the reply. If sent is nil, the caller has just added the
// repeated attributes to echoes.
func (r *Request) do(c exchange.Command, sent *sentAttrs) { r.doIn(-1, c, sent) }

// doIn is do for a command that depends on the symbol made by the command with index symbol.
func (r *Request) doIn(symbol int, c exchange.Command, sent *sentAttrs) {
	r.slots = append(r.slots, slot{command: len(r.Commands), symbol: symbol, sent: sent, echoEnd: len(r.echoes)})
	r.Commands = append(r.Commands, c)
}

// grow reserves capacity for n more elements, so that appending many of them makes no garbage.
func (r *Request) grow(n int) {
	r.slots, r.Commands = slices.Grow(r.slots, n), slices.Grow(r.Commands, n)
}

// refuse adds a place with an error about e to the reply.
func (r *Request) refuse(e *element, sent *sentAttrs, err error) {
	sent.shorten(e.name)
	r.slots = append(r.slots, slot{command: -1, symbol: -1, text: err.Error(), sent: sent, echoEnd: len(r.echoes)})
}

// create reads <create> (docs/PROTOCOL.md, section "create").
func (r *Request) create(root *element) {
	r.creates = true
	if err := onlyAttributes(root); err != nil {
		r.refusal = err.Error()
		return
	}
	r.grow(len(root.children))
	for _, child := range root.children {
		switch child.name {
		case "account":
			r.account(child)
		case "symbol":
			r.symbol(child)
		default:
			r.refuse(child, sentWith(child), errUnknown(child, root))
		}
	}
}

// account reads an <account> element, which opens an account.
func (r *Request) account(e *element) {
	c := exchange.Command{Kind: exchange.OpenAccount}
	err := first(onlyAttributes(e, "id", "balance", "ref"), noContent(e))
	if err == nil {
		c.Account, err = parseAttr(e, "id", exchange.ParseAccountID)
	}
	if err == nil {
		c.Balance, err = parseAttr(e, "balance", exchange.ParseBalance)
	}
	if err == nil {
		c.Ref, err = decodeRef(e)
	}
	if err != nil {
		r.refuse(e, sentWith(e), err)
		return
	}
	r.do(c, sentWith(e))
}

// symbol reads a <symbol> and the deposits in it. The symbol is made before its deposits. It has a place
// in the reply only if there are no deposits.
func (r *Request) symbol(e *element) {
	sym, err := parseAttr(e, "sym", exchange.ParseSymbol)
	list := exchange.Command{Kind: exchange.MakeSymbol, Symbol: sym}
	if wrong := first(onlyAttributes(e, "sym", "tick", "lot"), decodeRules(e, &list)); wrong != nil {
		r.refuse(e, sentWith(e), wrong)
		return
	}
	switch {
	case len(e.children) == 0 && err != nil:
		r.refuse(e, sentWith(e), err)
	case len(e.children) == 0:
		r.do(list, sentWith(e))
	case err == nil:
		r.Commands = append(r.Commands, list)
	}
	r.placements(e, sym, list.More, err)
}

// placements reads the deposits in a <symbol>. If wrong is nil, the last command makes that symbol;
// otherwise wrong is the error in its sym.
func (r *Request) placements(e *element, sym exchange.Symbol, more *exchange.CommandMore, wrong error) {
	made, begin := -1, len(r.slots)
	if wrong == nil {
		made = len(r.Commands) - 1
	}
	r.grow(len(e.children))
	for _, child := range e.children {
		attrs := sentWithin(child, e)
		c := exchange.Command{Kind: exchange.DepositShares, Symbol: sym, More: more}
		if err := first(wrong, decodePlacement(child, e, &c)); err != nil {
			r.refuse(child, attrs, err)
			r.slots[len(r.slots)-1].symbol = made
			continue
		}
		r.doIn(made, c, attrs)
	}
	if more != nil && begin < len(r.slots) {
		r.slots[begin].around = sentWith(e)
	}
}

// decodePlacement reads a child of a <symbol>, a deposit, into c.
func decodePlacement(e, symbol *element, c *exchange.Command) error {
	if e.name != "account" {
		return errUnknown(e, symbol)
	}
	err := first(onlyAttributes(e, "id", "ref"), noChildren(e))
	if err == nil {
		c.Account, err = parseAttr(e, "id", exchange.ParseAccountID)
	}
	if err == nil {
		c.Deposited, err = exchange.ParseDeposit(strings.Trim(string(e.text), whiteSpace))
	}
	if err == nil {
		c.Ref, err = decodeRef(e)
	}
	return err
}

// parseAttr parses a required attribute.
func parseAttr[T any](e *element, name string, parse func(string) (T, error)) (T, error) {
	s, ok := e.attr(name)
	if !ok {
		var none T
		return none, errMissing(e, name)
	}
	return parse(s)
}

// errMissing returns the error for an element that lacks a required attribute.
func errMissing(e *element, name string) error { return fmt.Errorf("<%s> has no %s", e.name, name) }

// onlyAttributes returns an error if an element has an attribute that is not in known.
func onlyAttributes(e *element, known ...string) error {
	for _, a := range e.attrs {
		if name := rawName(a.Name); !slices.Contains(known, name) {
			return fmt.Errorf("<%s> has no attribute %s", e.name, clip(name))
		}
	}
	return nil
}

// noChildren returns an error if an element has child elements.
func noChildren(e *element) error {
	if len(e.children) > 0 {
		return fmt.Errorf("<%s> has no element <%s> in it", e.name, clip(e.children[0].name))
	}
	return nil
}

// noContent returns an error if an element has child elements or text.
func noContent(e *element) error {
	if !isBlank(e.text) {
		return fmt.Errorf("<%s> has no text in it", e.name)
	}
	return noChildren(e)
}

// first returns the first error that is not nil, or nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// errUnknown returns the error for a child element that its parent does not allow.
func errUnknown(e, parent *element) error {
	return fmt.Errorf("unknown element <%s> in <%s>", clip(e.name), parent.name)
}
