package wire

// Account is a request to open an account. Ref is optional.
type Account struct{ ID, Balance, Ref string }

// Placement is a request to deposit shares with an account. Ref is optional.
type Placement struct{ Account, Shares, Ref string }

// Create builds the XML of a <create> frame (docs/PROTOCOL.md, section "create"). The zero value has no
// elements. Values are sent unchecked; one that contains characters that XML does not allow makes the
// document malformed. A Create is not safe for concurrent use.
type Create struct{ body []byte }

// Account adds an <account> that opens an account, and returns c.
func (c *Create) Account(a Account) *Create {
	c.body = append(c.body, "<account"...)
	c.body = appendAttr(c.body, "id", a.ID)
	c.body = appendAttr(c.body, "balance", a.Balance)
	c.body = appendRef(c.body, a.Ref)
	c.body = append(c.body, "/>"...)
	return c
}

// Symbol adds a <symbol> that makes a symbol and deposits shares of it, and returns c.
func (c *Create) Symbol(sym string, placements ...Placement) *Create {
	return c.SymbolOf(sym, "", "", placements...)
}

// SymbolOf is Symbol with a tick and a lot; each is omitted if it is "".
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

// Append appends the XML to dst, without a length line, and returns it. Elements may be added to c
// afterwards.
func (c *Create) Append(dst []byte) []byte {
	dst = append(dst, "<create>"...)
	dst = append(dst, c.body...)
	return append(dst, "</create>"...)
}

// Transactions builds the XML of a <transactions> frame for one account (docs/PROTOCOL.md, section
// "transactions"). Values are sent unchecked; one that contains characters that XML does not allow makes
// the document malformed. A Transactions is not safe for concurrent use.
type Transactions struct {
	account string
	body    []byte
}

// NewTransactions returns a Transactions for account without elements.
func NewTransactions(account string) *Transactions { return &Transactions{account: account} }

// Order adds an order, and returns t. An order with a negative amount sells.
func (t *Transactions) Order(sym, amount, limit string) *Transactions {
	return t.OrderRef(sym, amount, limit, "")
}

// OrderRef adds an order with a ref, and returns t. The ref is omitted if it is "".
func (t *Transactions) OrderRef(sym, amount, limit, ref string) *Transactions {
	return t.Place(Order{Sym: sym, Amount: amount, Limit: limit, Ref: ref})
}

// Query adds a query of the order with the given id, and returns t.
func (t *Transactions) Query(id string) *Transactions {
	t.body = append(t.body, "<query"...)
	t.body = append(appendAttr(t.body, "id", id), "/>"...)
	return t
}

// Cancel adds a cancel of the order with the given id, and returns t.
func (t *Transactions) Cancel(id string) *Transactions {
	t.body = append(t.body, "<cancel"...)
	t.body = append(appendAttr(t.body, "id", id), "/>"...)
	return t
}

// QueryRef adds a query of the account's order with the given ref, and returns t.
func (t *Transactions) QueryRef(ref string) *Transactions {
	t.body = append(t.body, "<query"...)
	t.body = append(appendAttr(t.body, "ref", ref), "/>"...)
	return t
}

// CancelRef adds a cancel of the account's order with the given ref, and returns t.
func (t *Transactions) CancelRef(ref string) *Transactions {
	t.body = append(t.body, "<cancel"...)
	t.body = append(appendAttr(t.body, "ref", ref), "/>"...)
	return t
}

// Attr is an attribute of an element in a request. It is omitted if its value is "".
type Attr struct{ Name, Value string }

// Element adds an element without content, and returns t: an <order> with instructions, an <amend>, or
// any other element that <transactions> accepts.
func (t *Transactions) Element(name string, attrs ...Attr) *Transactions {
	t.body = append(append(t.body, '<'), name...)
	for _, a := range attrs {
		t.body = appendGiven(t.body, a.Name, a.Value)
	}
	t.body = append(t.body, "/>"...)
	return t
}

// appendRef appends the attribute ref unless it is "".
func appendRef(dst []byte, ref string) []byte { return appendGiven(dst, "ref", ref) }

// appendGiven appends an attribute unless its value is "".
func appendGiven(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendAttr(dst, name, value)
}

// Append appends the XML to dst, without a length line, and returns it. Elements may be added to t
// afterwards.
func (t *Transactions) Append(dst []byte) []byte {
	dst = append(dst, "<transactions"...)
	dst = append(appendAttr(dst, "id", t.account), '>')
	dst = append(dst, t.body...)
	return append(dst, "</transactions>"...)
}

// AppendSession appends the XML of a <session> frame to dst and returns it. It asks the exchange to
// cancel the orders that follow on the connection when the connection ends, and to end the connection
// after timeout seconds without a frame. "" means the server's default timeout.
func AppendSession(dst []byte, timeout string) []byte {
	dst = appendAttr(append(dst, "<session"...), "cancel", "disconnect")
	return append(appendGiven(dst, "timeout", timeout), "/>"...)
}
