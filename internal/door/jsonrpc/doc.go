// Package jsonrpc is JSON-RPC 2.0 over WebSocket, at GET /api/v1/ws: orders, accounts and market data for programs in
// any language, and for browsers. docs/reference/WEBSOCKET.md lists its methods, values, reasons and channels. That
// page, and the tests that compare messages with asyncapi.yaml, are generated from this package's tables (methods,
// channels, reasons).
//
// The package translates and decides nothing. Commands go to door.Server, which judges and executes them as it does
// for every protocol. Accounts come from accounts.View, market data from market.Feed, and orders that closed long
// ago from the database. Package websocket is the connection itself: frames, queues, slow readers.
//
//	text ─▶ scan (strict JSON) ─▶ request.parse (envelope) ─▶ method.read (names, types, values)
//	     ─▶ conn (executes in order) ─▶ answers (wait until durable, send in order) ─▶ websocket
//	accounts.View, market.Feed ─▶ channels (one message for all readers) ─▶ websocket
//
// Requests of a connection take effect in their order, and results are sent in that order. Commands are executed
// as they arrive, without waiting for the disk. A command that follows a read waits until the read has its
// answer, so that the seq of answers never decreases.
package jsonrpc
