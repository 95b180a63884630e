// Package client trades on an exchange from Go, over the XML protocol of docs/PROTOCOL.md.
//
//	c, err := client.Dial(ctx, "127.0.0.1:12345", client.Options{})
//	…
//	defer c.Close()
//	id, err := c.Buy(ctx, "1", "SPY", client.Whole(100), client.MustDecimal("145.67"))
//
// Any number of goroutines may use a [Client]. It sends their frames over one connection, with many in flight at a
// time, and gives each caller the answer to its own frame. Frames take effect in the order in which they were given
// to the client. [Client.Do] sends several commands in one frame, and [Client.Send] does not wait for the answer.
//
// # Errors
//
// A command that the exchange refuses returns a [*Refused] with the exchange's text; nothing has changed, unless the
// command was sent more than once. A [*Broken] says that the connection broke before the answer, a [*GaveUp] that the
// context ended before it, and a [*ProtocolError] that the reply is not an answer. After these three a command may or
// may not have been executed; [MaybeDone] reports which is known. Any other error is about an argument, or says that
// no connection could be made; then nothing was sent.
//
// # When a connection breaks
//
// The client connects again when there is something to send, with pauses that grow. It repeats unanswered commands that
// are safe to repeat: queries, [MakeSymbol], orders, accounts and placements with a ref, and amends with a new one. The
// exchange stores refs: it answers the same command with the same ref as it did the first time, and does not execute it
// again. [Command.WithRef] adds a ref to a command, and [Options].AutoRef adds one to each command without. Cancels are
// not repeated, because the second answer would say that the order was canceled before; use a query instead. With
// [Options].CancelOnDisconnect the exchange cancels the orders of a connection that breaks, even if the client connects
// again.
//
// # Several addresses
//
// For a cluster, give [Dial] all addresses: "a:12345,b:12345,c:12345". The client finds the node that accepts orders,
// and after a failover the next one, within about half a second of the failover's end. The rules above say what it
// repeats and when it gives up. It also asks the other addresses when a reply has been missing for
// [Options].SwitchTime, since a machine that hangs does not close its connections. While no other address accepts
// orders, the client waits.
//
// # Frames only
//
// A [Conn] is a single connection that knows only frames. It is for programs that make their own XML, or that measure.
package client
