// Package jsonrpc is JSON-RPC 2.0 over WebSocket, at GET /api/v1/ws: orders, accounts and market data for programs in
// any language, and for browsers. docs/reference/WEBSOCKET.md lists its methods, values, reasons and channels; it is
// made of the tables here (methods, channels, reasons), as are the tests of what is described in asyncapi.yaml.
//
// The package translates and decides nothing. Commands go to door.Server, which judges and executes them as those of
// any other protocol; what an account has comes from accounts.View, the market from market.Feed, and what
// closed long ago from the database. The connection itself (frames, queues, slow readers) is package socket.
//
//	text ─▶ scan (strict JSON) ─▶ request.parse (envelope) ─▶ method.read (names, types, values)
//	     ─▶ conn (executes in order) ─▶ answers (wait until durable, tell in order) ─▶ socket
//	accounts.View, market.Feed ─▶ channels (one message for all readers) ─▶ socket
//
// Requests of a connection take effect in their order, and results come in that order. Commands are executed
// as they arrive, without waiting for the disk; a command that comes behind a read waits until the
// read has seen what it tells, so that seq never goes back.
package jsonrpc
