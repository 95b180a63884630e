package main

import (
	"context"
	"sync/atomic"

	"outcry/internal/door"
	"outcry/internal/door/asof"
	"outcry/internal/door/binance"
	"outcry/internal/door/jsonrpc"
	"outcry/internal/exchange"
	"outcry/internal/postgres"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// doors holds the parts of the exchange that the HTTP doors use. HTTP starts first; each part is stored
// here once it exists.
type doors struct {
	sessions atomic.Pointer[door.Server] // nil on a standby
	feed     atomic.Pointer[market.Feed]
	view     atomic.Pointer[accounts.View]
}

// tables is the doors' access to the database.
type tables struct {
	*postgres.History
	projector *postgres.Projector
}

// WaitApplied returns once the tables include record seq. The error is ctx's or the projector's.
func (t tables) WaitApplied(ctx context.Context, seq uint64) error {
	return t.projector.WaitApplied(ctx, seq)
}

// newBinance returns the door for clients of Binance's API.
func (s *server) newBinance() *binance.Door {
	return binance.New(binance.Options{
		Keys:     s.guards.keys,
		Sessions: s.doors.sessions.Load, Feed: s.doors.feed.Load, View: s.doors.view.Load,
		History:       func() asof.History { return tables{s.history, s.projector} },
		OrderValueMin: func() exchange.Cash { return exchange.Cash(s.settings().OrderValueMin) },
		Sockets:       s.sockets, Log: s.log,
	})
}

// newRPC returns the door for JSON-RPC over WebSocket.
func (s *server) newRPC() *jsonrpc.Door {
	return jsonrpc.NewDoor(jsonrpc.Options{
		Socket: s.sockets, Tokens: s.guards.tokens,
		Sessions: s.doors.sessions.Load, Why: s.started, Feed: s.doors.feed.Load, View: s.doors.view.Load,
		History: func() asof.History { return tables{s.history, s.projector} },
		Refused: s.metrics.sessions.Refused, Denied: s.metrics.sessions.Denied, Log: s.log,
	})
}
