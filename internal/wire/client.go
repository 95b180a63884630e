package wire

// Account is an account that a client asks to open. Ref is "" if it has none.
type Account struct{ ID, Balance, Ref string }

// Placement is a number of shares that a client asks to place with an account. Ref is ""
// if it has none.
type Placement struct{ Account, Shares, Ref string }

// Create builds the XML of a <create> frame (docs/PROTOCOL.md, section "create").
// The zero value is an empty one. Values are sent as they are, right or wrong; one
// with characters that XML does not have makes the document malformed. It is for
// one goroutine at a time.
type Create struct{ body []byte }

// Account adds an account to be opened, and returns c.
func (c *Create) Account(a Account) *Create {
	c.body = append(c.body, "<account"...)
	c.body = appendAttr(c.body, "id", a.ID)
	c.body = appendAttr(c.body, "balance", a.Balance)
	c.body = appendRef(c.body, a.Ref)
	c.body = append(c.body, "/>"...)
	return c
}

// Symbol adds a symbol to be made, and shares to be placed in it, and returns c.
func (c *Create) Symbol(sym string, placements ...Placement) *Create {
	c.body = append(c.body, "<symbol"...)
	c.body = append(appendAttr(c.body, "sym", sym), '>')
	for _, p := range placements {
		c.body = append(c.body, "<account"...)
		c.body = append(appendRef(appendAttr(c.body, "id", p.Account), p.Ref), '>')
		c.body = appendEscaped(c.body, p.Shares)
		c.body = append(c.body, "</account>"...)
	}
	c.body = append(c.body, "</symbol>"...)
	return c
}

// Append appends the XML to dst, without a length line, and returns it. More may
// be added to c afterwards.
func (c *Create) Append(dst []byte) []byte {
	dst = append(dst, "<create>"...)
	dst = append(dst, c.body...)
	return append(dst, "</create>"...)
}

// Transactions builds the XML of a <transactions> frame for one account
// (docs/PROTOCOL.md, section "transactions"). Values are sent as they are, right
// or wrong; one with characters that XML does not have makes the document
// malformed. It is for one goroutine at a time.
type Transactions struct {
	account string
	body    []byte
}

// NewTransactions returns one without children.
func NewTransactions(account string) *Transactions { return &Transactions{account: account} }

// Order adds an order, and returns t. A negative amount sells.
func (t *Transactions) Order(sym, amount, limit string) *Transactions {
	return t.OrderRef(sym, amount, limit, "")
}

// OrderRef adds an order with a ref, and returns t. "" is none.
func (t *Transactions) OrderRef(sym, amount, limit, ref string) *Transactions {
	return t.Place(Order{Sym: sym, Amount: amount, Limit: limit, Ref: ref})
}

// Query adds a query of an order, and returns t.
func (t *Transactions) Query(id string) *Transactions { return t.element("query", needed("id", id)) }

// Cancel adds a cancel of an order, and returns t.
func (t *Transactions) Cancel(id string) *Transactions { return t.element("cancel", needed("id", id)) }

// QueryRef adds a query of the account's order that has a ref, and returns t.
func (t *Transactions) QueryRef(ref string) *Transactions {
	return t.element("query", needed("ref", ref))
}

// CancelRef adds a cancel of the account's order that has a ref, and returns t.
func (t *Transactions) CancelRef(ref string) *Transactions {
	return t.element("cancel", needed("ref", ref))
}

// Amend holds the attributes of an <amend>. "" is one that is absent.
type Amend struct{ ID, Ref, Amount, Limit, Report, NewRef string }

// Amend adds an amend of an order, and returns t.
func (t *Transactions) Amend(a Amend) *Transactions {
	return t.element("amend", optionalAttr("id", a.ID), optionalAttr("ref", a.Ref), optionalAttr("amount", a.Amount),
		optionalAttr("limit", a.Limit), optionalAttr("report", a.Report), optionalAttr("newref", a.NewRef))
}

// CancelAll adds a cancel of all that the account has open, of one symbol or, for "", of all, and returns t.
func (t *Transactions) CancelAll(sym string) *Transactions {
	return t.element("cancel-all", optionalAttr("sym", sym))
}

// CancelAfter arms the account's switch, and returns t: all that is open then is canceled after so many
// seconds, unless it is armed again before. "0" disarms it.
func (t *Transactions) CancelAfter(seconds string) *Transactions {
	return t.element("cancel-after", needed("seconds", seconds))
}

// Account adds a question for what the account has, and returns t.
func (t *Transactions) Account() *Transactions { return t.element("account") }

// Orders adds a question for the account's open orders, of one symbol or, for "", of all, from behind the id
// after on, or from the first on for "", and returns t.
func (t *Transactions) Orders(sym, after string) *Transactions {
	return t.element("orders", optionalAttr("sym", sym), optionalAttr("after", after))
}

// Fills adds a question for the account's executions behind the number after, or for "" for its newest, and returns t.
func (t *Transactions) Fills(after string) *Transactions {
	return t.element("fills", optionalAttr("after", after))
}

// AppendSession appends the XML of a frame <session>: the orders that follow on its connection are canceled when
// it ends. timeout is after how many seconds of silence it does, "" for the server's time.
func AppendSession(dst []byte, timeout string) []byte {
	dst = appendValues(append(dst, "<session"...), needed("cancel", "disconnect"), optionalAttr("timeout", timeout))
	return append(dst, "/>"...)
}

// sentValue is an attribute of an element that is sent.
type sentValue struct {
	name, value string
	optional    bool // "" is none
}

func needed(name, value string) sentValue       { return sentValue{name: name, value: value} }
func optionalAttr(name, value string) sentValue { return sentValue{name, value, true} }

// element adds an element, and returns t.
func (t *Transactions) element(name string, attributes ...sentValue) *Transactions {
	t.body = append(append(t.body, '<'), name...)
	t.body = append(appendValues(t.body, attributes...), "/>"...)
	return t
}

// appendValues appends attributes, but not those that are optional and "".
func appendValues(dst []byte, attributes ...sentValue) []byte {
	for _, a := range attributes {
		if !a.optional || a.value != "" {
			dst = appendAttr(dst, a.name, a.value)
		}
	}
	return dst
}

// appendRef appends a ref, if there is one.
func appendRef(dst []byte, ref string) []byte {
	if ref == "" {
		return dst
	}
	return appendAttr(dst, "ref", ref)
}

// Append appends the XML to dst, without a length line, and returns it. More may
// be added to t afterwards.
func (t *Transactions) Append(dst []byte) []byte {
	dst = append(dst, "<transactions"...)
	dst = append(appendAttr(dst, "id", t.account), '>')
	dst = append(dst, t.body...)
	return append(dst, "</transactions>"...)
}
