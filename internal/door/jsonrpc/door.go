package jsonrpc

import (
	"time"

	"outcry/internal/auth"
	"outcry/internal/door"
	"outcry/internal/door/asof"
	"outcry/internal/door/fanout"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// Options are what a Door needs. Those that are functions are called again and again: what they return comes later than
// the door.
type Options struct {
	Socket *websocket.Server
	// Sessions returns nil while there are no orders and no accounts, such as on a standby; Why says why. View, which may
	// return nil then, and History are there while Sessions is.
	Sessions func() *door.Server
	Why      func() error
	View     func() *accounts.View
	History  func() asof.History
	Feed     func() *market.Feed // returns nil while there is no market data
	Tokens   *auth.Tokens        // nil: nobody has to prove anything
	Denied   func()              // counts requests that their token does not allow
	Refused  func()              // counts tokens that are not taken
}

// Door serves JSON-RPC over WebSocket.
type Door struct {
	options Options
	asof    asof.Orders
	hub     fanout.Hub[*reader]
	events  madeOnce[exchange.AccountEvent]
	orders  madeOnce[accounts.OrdersChange]
}

// NewDoor returns a door.
func NewDoor(o Options) *Door {
	return &Door{options: o, asof: asof.Orders{View: o.View, History: o.History, Patience: historyTimeout}}
}

// ready returns a fault while there are no orders and no accounts.
func (d *Door) ready() *fault {
	if d.options.Sessions() != nil {
		return nil
	}
	text := "there are no orders and no accounts here now"
	if err := d.options.Why(); err != nil {
		text += ": " + err.Error()
	}
	return wrong(notReady, text)
}

// view returns the view of accounts.
func (d *Door) view() *accounts.View { return d.options.View() }

// historyTimeout bounds how long an answer waits for the database.
const historyTimeout = 5 * time.Second
