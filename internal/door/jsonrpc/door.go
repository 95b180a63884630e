package jsonrpc

import (
	"log/slog"
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

// Options configure a Door. It calls the functions for each request, because the parts that they return are created
// after the door and may be closed before it.
type Options struct {
	Socket *websocket.Server
	// Sessions returns nil while the exchange accepts no commands, for example on a standby. Why then returns the
	// reason. View and History may return nil only while Sessions does.
	Sessions func() *door.Server
	Why      func() error
	View     func() *accounts.View
	History  func() asof.History
	Feed     func() *market.Feed // returns nil while no market data is available
	Tokens   *auth.Tokens        // nil if no token is required
	Denied   func()              // counts a request that its token does not allow
	Refused  func()              // counts an invalid token
	Log      *slog.Logger        // gets a line for each invalid token
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

// ready returns a fault while the server serves neither orders nor accounts.
func (d *Door) ready() *fault {
	if d.options.Sessions() != nil {
		return nil
	}
	text := "orders and accounts are not available here now"
	if err := d.options.Why(); err != nil {
		text += ": " + err.Error()
	}
	return wrong(notReady, text)
}

// view returns the view of accounts.
func (d *Door) view() *accounts.View { return d.options.View() }

// historyTimeout bounds how long an answer waits for the database.
const historyTimeout = 5 * time.Second
