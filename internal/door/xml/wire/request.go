package wire

import (
	"fmt"
	"slices"
	"strings"

	"outcry/internal/exchange"
)

// Request is a decoded frame: the commands that it asks for, and the places that
// their results have in the reply. The zero value is an empty request. It keeps
// no part of the frame that it was decoded from. It is for one goroutine at a time.
type Request struct {
	// Connectionless says that frames do not come over a connection that means anything to their client, as
	// over HTTP: nothing is canceled when it ends. It is set before Decode.
	Connectionless bool

	// Commands are to be executed in this order. Decode fills them; callers who
	// executes them leaves them as they are for AppendReply. The names in them may
	// be kept: they are copies, of nothing but the names.
	Commands []exchange.Command

	onDisconnect bool          // of orders that do not say it: CancelOnDisconnect
	session      *sessionFrame // of a <session>; nil for every other frame

	slots   []slot
	echoes  []byte // what the reply repeats, as it has it, of the slots without sent
	refusal string // why the frame as a whole is refused; "" if it is not
	denied  int    // slots whose commands Judge took out

	// What the frame is for, as far as its document was read by decodeDocument: the scanner
	// leaves nothing to be refused. creates is false for <transactions>.
	creates bool
	actsFor exchange.AccountID // of <transactions>, "" if it names none that can be

	// The names that a scanner has read last, in this frame or an earlier one.
	lastAccount exchange.AccountID
	lastSymbol  exchange.Symbol
}

// slot is one place in a reply.
type slot struct {
	command int    // index in Commands, -1 if the place holds an error anyway
	text    string // of that error
	// symbol is the index of the command that makes the symbol which this place's
	// command needs, -1 if it needs none. around is of the first place in a <symbol> with rules: what
	// is repeated of that if the rules are refused, with which nothing in it is answered.
	symbol int
	around *sentAttrs
	// sent is what the reply repeats. nil stands for the part of echoes from the
	// echoEnd of the slot before to this one's.
	sent    *sentAttrs
	echoEnd int
}

// Decode reads a frame's XML into r, whose memory it uses anew. It cannot fail: a
// malformed document, an unknown root and so on become a request without
// commands, whose reply says what is wrong.
func (r *Request) Decode(frame []byte) {
	r.reset()
	if s := (scanner{r: r, xml: frame}); !s.scan() {
		r.reset()
		r.decodeDocument(frame)
	}
}

// reset makes r an empty request that refers to nothing of an earlier frame, except
// two names.
func (r *Request) reset() {
	clear(r.Commands)
	clear(r.slots)
	r.Commands, r.slots, r.echoes, r.refusal, r.denied = r.Commands[:0], r.slots[:0], r.echoes[:0], "", 0
	r.creates, r.actsFor, r.session = false, "", nil
}

// decodeDocument decodes any frame into r, which is empty.
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

// Refused returns how many places of the reply hold an error that no command
// leads to: what is wrong was found by Decode. What Judge took out does not count.
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

// do adds a command and its place in the reply. sent is nil if what the reply repeats
// has just been added to echoes.
func (r *Request) do(c exchange.Command, sent *sentAttrs) { r.doIn(-1, c, sent) }

// doIn is do for a command in a symbol that another command makes.
func (r *Request) doIn(symbol int, c exchange.Command, sent *sentAttrs) {
	r.slots = append(r.slots, slot{command: len(r.Commands), symbol: symbol, sent: sent, echoEnd: len(r.echoes)})
	r.Commands = append(r.Commands, c)
}

// grow makes room for n more elements, so that many leave no garbage behind.
func (r *Request) grow(n int) {
	r.slots, r.Commands = slices.Grow(r.slots, n), slices.Grow(r.Commands, n)
}

// refuse adds an error about e to the reply.
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

// account reads an <account> that is to be opened.
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

// symbol reads a <symbol> and the shares to be placed in it. The symbol is made
// before its accounts; it has a place in the reply only if it has none.
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

// placements reads what is in a <symbol> that the last command makes, unless its sym has the error.
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

// decodePlacement reads a child of a <symbol>.
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

// parseAttr parses an attribute that must be there.
func parseAttr[T any](e *element, name string, parse func(string) (T, error)) (T, error) {
	s, ok := e.attr(name)
	if !ok {
		var none T
		return none, errMissing(e, name)
	}
	return parse(s)
}

// errMissing says that an element has not an attribute that it must have.
func errMissing(e *element, name string) error { return fmt.Errorf("<%s> has no %s", e.name, name) }

// onlyAttributes returns an error that names an attribute other than the known.
func onlyAttributes(e *element, known ...string) error {
	for _, a := range e.attrs {
		if name := rawName(a.Name); !slices.Contains(known, name) {
			return fmt.Errorf("<%s> has no attribute %s", e.name, clip(name))
		}
	}
	return nil
}

// noChildren returns an error if an element has elements in it.
func noChildren(e *element) error {
	if len(e.children) > 0 {
		return fmt.Errorf("<%s> has no element <%s> in it", e.name, clip(e.children[0].name))
	}
	return nil
}

// noContent returns an error if an element has elements or text in it.
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

// errUnknown says that an element is not one that its parent has.
func errUnknown(e, parent *element) error {
	return fmt.Errorf("unknown element <%s> in <%s>", clip(e.name), parent.name)
}
