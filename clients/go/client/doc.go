// Package client trades on an exchange from Go, over the XML protocol of
// docs/PROTOCOL.md.
//
//	c, err := client.Dial(ctx, "127.0.0.1:12345", client.Options{})
//	…
//	defer c.Close()
//	id, err := c.Buy(ctx, "1", "SPY", client.Whole(100), client.MustDecimal("145.67"))
//
// A [Client] is for many goroutines. It sends their frames over one connection, many
// under way at a time, and hands each the answer to its own. Frames take effect in
// the order in which they were given to it. [Client.Do] sends several commands in one
// frame, and [Client.Send] does not wait for the answer.
//
// # Errors
//
// A command that the exchange refuses is a [*Refused], with the exchange's words; it
// has changed nothing, unless it was sent more than once. A [*Broken] says that the
// connection broke before the answer, a [*GaveUp] that the context ended before it, and
// a [*ProtocolError] that what came is no answer. After these a command may have been
// done, or not: [MaybeDone] reports whether that is so. Any other error is about an
// argument, or says that no connection was made; then nothing was sent.
//
// # When a connection breaks
//
// The client connects again, with pauses that grow, when there is something to send.
// It sends again by itself what was sent and not answered, if that cannot do a
// thing twice: queries, [MakeSymbol], orders, accounts and placements that have a
// ref, and amends with a new one. The exchange keeps refs, and answers the same command with the same ref as it
// did the first time, without doing it again. [Command.WithRef] gives a command one,
// and [Options].AutoRef gives one to each that has none. Cancels are not sent again:
// the second would say that the order was canceled before. Ask with a query. With
// [Options].CancelOnDisconnect the orders of a connection that breaks are canceled, also
// where the client connects again.
//
// # Several addresses
//
// Of a cluster give [Dial] all addresses, "a:12345,b:12345,c:12345": the client finds the
// node that takes orders, and the one that takes them next, within about half a second of
// a failover's end. What it sends again, and when it gives up, is as above. It also asks
// the others when a reply is owed for [Options].SwitchTime, since a machine that hangs
// closes no connection; while no other takes orders, it waits.
//
// # Below
//
// A [Conn] is one connection and knows frames only. Programs that make their own XML,
// or measure, use it alone.
package client
