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
	return c.SymbolOf(sym, "", "", placements...)
}

// SymbolOf is Symbol with a tick and a lot, each "" if it is not said.
func (c *Create) SymbolOf(sym, tick, lot string, placements ...Placement) *Create {
	c.body = append(c.body, "<symbol"...)
	c.body = appendAttr(c.body, "sym", sym)
	c.body = append(appendGiven(appendGiven(c.body, "tick", tick), "lot", lot), '>')
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
func (t *Transactions) Query(id string) *Transactions {
	t.body = append(t.body, "<query"...)
	t.body = append(appendAttr(t.body, "id", id), "/>"...)
	return t
}

// Cancel adds a cancel of an order, and returns t.
func (t *Transactions) Cancel(id string) *Transactions {
	t.body = append(t.body, "<cancel"...)
	t.body = append(appendAttr(t.body, "id", id), "/>"...)
	return t
}

// QueryRef adds a query of the account's order that has a ref, and returns t.
func (t *Transactions) QueryRef(ref string) *Transactions {
	t.body = append(t.body, "<query"...)
	t.body = append(appendAttr(t.body, "ref", ref), "/>"...)
	return t
}

// CancelRef adds a cancel of the account's order that has a ref, and returns t.
func (t *Transactions) CancelRef(ref string) *Transactions {
	t.body = append(t.body, "<cancel"...)
	t.body = append(appendAttr(t.body, "ref", ref), "/>"...)
	return t
}

// Attr is an attribute of an element that a client sends. One without a value is not sent.
type Attr struct{ Name, Value string }

// Element adds an element without content, and returns t: an <order> with instructions, an
// <amend>, or any other that a <transactions> may have.
func (t *Transactions) Element(name string, attrs ...Attr) *Transactions {
	t.body = append(append(t.body, '<'), name...)
	for _, a := range attrs {
		t.body = appendGiven(t.body, a.Name, a.Value)
	}
	t.body = append(t.body, "/>"...)
	return t
}

// appendRef appends a ref, if there is one.
func appendRef(dst []byte, ref string) []byte { return appendGiven(dst, "ref", ref) }

// appendGiven appends an attribute, if it has a value.
func appendGiven(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendAttr(dst, name, value)
}

// Append appends the XML to dst, without a length line, and returns it. More may
// be added to t afterwards.
func (t *Transactions) Append(dst []byte) []byte {
	dst = append(dst, "<transactions"...)
	dst = append(appendAttr(dst, "id", t.account), '>')
	dst = append(dst, t.body...)
	return append(dst, "</transactions>"...)
}

// AppendSession appends the XML of a frame <session>, and returns it: the orders that follow on its connection
// are canceled when it ends, which it does after so many seconds of silence; "" is the server's time.
func AppendSession(dst []byte, timeout string) []byte {
	dst = appendAttr(append(dst, "<session"...), "cancel", "disconnect")
	return append(appendGiven(dst, "timeout", timeout), "/>"...)
}
