package stream

import (
	"encoding/json"
	"fmt"
	"strings"

	"outcry/clients/go/client"
)

// Update is the content of one message of a channel, or of all its parts if it was sent in parts.
type Update struct {
	Channel  string
	Seq      uint64 // newest record that the update includes
	Snapshot bool   // the update is the current state, not a change
	Book     *Book  // for a book's channel: the stream's own book, with this change and later ones
	Trades   []Trade
	// LastTrade is the newest trade, in a snapshot of trades. The trades between the last one received and this one
	// were missed while there was no connection: "trades.list" returns them.
	LastTrade uint64
	Account   *Event          // for an account's channel: the event
	Data      json.RawMessage // for any other channel: the data as received, one message for each part
}

// Trade is a trade of a symbol.
type Trade struct {
	ID     uint64         `json:"id"` // number of the symbol's trade: 1, 2, 3 … without a gap
	Price  client.Decimal `json:"price"`
	Shares client.Decimal `json:"shares"`
	Side   string         `json:"side"` // side of the order that arrived last
	Buy    client.OrderID `json:"buy"`
	Sell   client.OrderID `json:"sell"`
	TimeNS int64          `json:"time_ns,string"`
}

// Event is the effect of one record on an account or, in a snapshot, the account's state.
type Event struct {
	N         uint64      `json:"n"` // number of the account's event: 1, 2, 3 … without a gap
	Balance   client.Cash `json:"balance"`
	Held      client.Cash `json:"held"`
	Positions []Position  `json:"positions"`
	Orders    []Order     `json:"orders"`
	Fills     []Fill      `json:"fills"`
	// LastFill is the newest fill that the event includes. After a snapshot, the fills between the last one received
	// and this one were missed: "fills.list" returns them.
	LastFill uint64 `json:"last_fill"`
}

// Position is an account's shares of a symbol.
type Position struct {
	Symbol string         `json:"sym"`
	Shares client.Decimal `json:"shares"`
	Held   client.Decimal `json:"held"`
}

// Order is the state of an account's order after a record.
type Order struct {
	ID       client.OrderID `json:"id"`
	Symbol   string         `json:"sym"`
	Ref      string         `json:"ref"`
	Amount   client.Decimal `json:"amount"` // negative for a sell order
	Limit    client.Decimal `json:"limit"`
	State    string         `json:"state"`
	Open     client.Decimal `json:"open"`
	Executed client.Decimal `json:"executed"`
	Reduced  client.Decimal `json:"reduced"`
	Canceled client.Decimal `json:"canceled"`
	Before   client.Decimal `json:"before"`
	Notional client.Cash    `json:"notional"`
	By       client.OrderID `json:"by"`
}

// Fill is an execution from the view of one of its two accounts.
type Fill struct {
	Fill   uint64         `json:"fill"` // number of the account's fill: 1, 2, 3 … without a gap
	Order  client.OrderID `json:"order"`
	Trade  uint64         `json:"trade"` // id of the symbol's trade
	Symbol string         `json:"sym"`
	Side   string         `json:"side"`
	Shares client.Decimal `json:"shares"`
	Price  client.Decimal `json:"price"`
	Maker  bool           `json:"maker"`
	TimeNS int64          `json:"time_ns,string"`
}

// channel is the state of one subscribed channel.
type channel struct {
	name     string
	book     *Book  // the book of a book's channel
	waits    bool   // the result of its subscribe request is pending; data until then is dropped
	prev     uint64 // newest record of the chain
	started  bool   // a snapshot has arrived
	broken   bool   // the channel must restart
	why      string
	known    bool // for an account's channel: n and lastFill are known
	n        uint64
	lastFill uint64
	last     uint64 // number of the newest trade
	partial  bool   // for a book's channel: more parts of the message follow
	part     *Event // parts of an event received so far
	trades   []Trade
}

func newChannel(name string) *channel {
	c := &channel{name: name, waits: true}
	if c.kind() == "book" {
		c.book = &Book{}
	}
	return c
}

// kind returns the first word of the name.
func (c *channel) kind() string {
	kind, _, _ := strings.Cut(c.name, ".")
	return kind
}

// breaks marks the channel for a restart, and stores why.
func (c *channel) breaks(format string, args ...any) {
	c.broken, c.why = true, c.name+": "+fmt.Sprintf(format, args...)
}

// begin resets the channel for a restart. An account's numbers are kept. Data that arrives before the
// result of the new request belongs to the old chain and is dropped.
func (c *channel) begin() {
	c.waits = true
	c.started, c.broken, c.partial, c.part, c.trades = false, false, false, nil, nil
	if c.book != nil {
		c.book.InStep = false
	}
}

// answered starts the new chain once the result of the subscribe request has arrived.
func (c *channel) answered() {
	c.begin() // the result of an earlier request may have started the channel
	c.waits = false
}

// params returns the parameters of the request that restarts the channel at its current position.
func (c *channel) params() map[string]any {
	p := map[string]any{"channels": []string{c.name}}
	if c.known {
		p["after"] = c.n
	}
	return p
}

// header has the fields common to all data.
type header struct {
	Type string  `json:"type"`
	Prev *uint64 `json:"prev"`
	Seq  uint64  `json:"seq"`
	More bool    `json:"more"`
}

// apply reads data and returns the resulting update, or nil while parts are missing or if the channel must
// restart. The error wraps ErrProtocol.
func (c *channel) apply(data []byte) (u *Update, err error) {
	if c.waits {
		return nil, nil
	}
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, fmt.Errorf("%w: channel %s: %w", ErrProtocol, c.name, err)
	}
	u = &Update{Channel: c.name, Seq: h.Seq, Snapshot: h.Type == "snapshot"}
	kind := c.kind()
	if kind == "account" {
		return c.takeAccount(u, &h, data)
	}
	if c.broken || !u.Snapshot && !c.started {
		return nil, nil // data of the old chain
	}
	if h.Prev != nil && *h.Prev != c.prev {
		c.breaks("prev is %d, but the previous message had seq %d", *h.Prev, c.prev)
		return nil, nil
	}
	switch kind {
	case "book":
		return c.takeBook(u, &h, data)
	case "trades":
		return c.takeTrades(u, &h, data)
	}
	c.started, u.Data = true, data
	if !h.More {
		c.prev = h.Seq
	}
	return u, nil
}

// takeBook applies a change or snapshot to the book and verifies the checksum. take has checked the chain.
func (c *channel) takeBook(u *Update, h *header, data []byte) (*Update, error) {
	var d struct {
		Bids, Asks []Level
		Checksum   uint32
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%w: channel %s: %w", ErrProtocol, c.name, err)
	}
	if u.Snapshot && !c.partial {
		c.book.Bids, c.book.Asks = c.book.Bids[:0], c.book.Asks[:0]
	}
	c.book.Change(d.Bids, d.Asks)
	c.started, c.partial, c.book.InStep = true, h.More, false
	if h.More {
		return nil, nil
	}
	c.prev, c.book.Seq = h.Seq, h.Seq
	if sum := c.book.Checksum(); sum != d.Checksum {
		c.breaks("at seq %d the checksum is %d, but the local book has %d", h.Seq, d.Checksum, sum)
		return nil, nil
	}
	c.book.InStep, u.Book = true, c.book
	return u, nil
}

// takeTrades joins the trades of one record, which may be sent in parts.
func (c *channel) takeTrades(u *Update, h *header, data []byte) (*Update, error) {
	var d struct {
		LastTrade uint64 `json:"last_trade"`
		Trades    []Trade
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%w: channel %s: %w", ErrProtocol, c.name, err)
	}
	if u.Snapshot {
		c.started, c.last, u.LastTrade = true, d.LastTrade, d.LastTrade
		return u, nil
	}
	for _, t := range d.Trades {
		if t.ID != c.last+1 {
			c.breaks("trade %d follows trade %d", t.ID, c.last)
			return nil, nil
		}
		c.last = t.ID
	}
	if c.trades = append(c.trades, d.Trades...); h.More {
		return nil, nil
	}
	u.Trades, c.trades = c.trades, nil
	return u, nil
}

// takeAccount joins the parts of an event and checks its numbers against the previous ones.
func (c *channel) takeAccount(u *Update, h *header, data []byte) (*Update, error) {
	e := &Event{}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("%w: channel %s: %w", ErrProtocol, c.name, err)
	}
	if p := c.part; p != nil {
		e.Positions = append(p.Positions, e.Positions...)
		e.Orders = append(p.Orders, e.Orders...)
		e.Fills = append(p.Fills, e.Fills...)
	}
	if c.part = e; h.More {
		return nil, nil
	}
	c.part = nil
	switch {
	case c.broken, !u.Snapshot && c.known && e.N <= c.n:
		return nil, nil // data of the old chain
	case !u.Snapshot && (!c.known || e.N != c.n+1):
		c.breaks("event %d follows event %d", e.N, c.n)
		return nil, nil
	}
	if !u.Snapshot {
		e.LastFill = c.lastFill
		for _, f := range e.Fills {
			if f.Fill != e.LastFill+1 {
				return nil, fmt.Errorf("%w: channel %s: fill %d follows fill %d", ErrProtocol, c.name, f.Fill, e.LastFill)
			}
			e.LastFill = f.Fill
		}
	}
	c.known, c.n, c.lastFill, u.Account = true, e.N, e.LastFill, e
	return u, nil
}
