// Package exchange is the pure core of Outcry: exact numbers, commands and
// their results, the order book, the ledger, and the events that a journal
// keeps. Nothing in it does I/O, reads a clock, draws random numbers, starts a
// goroutine or writes a log: time, ids and limits come in as arguments, and the
// same inputs give the same bytes.
//
// The files read in this order; those of a part begin with its name:
//
//   - money: exact numbers, how they are read and printed.
//   - order: what clients ask (command.go), what is told (order_public.go), the names
//     that they give (order_ref.go), what amends did (order_lineage.go), what operators
//     set (order_rules.go), and what is journaled (event*.go; event_more.go has what came
//     with order instructions).
//   - book: book.go matches; book_instructed.go matches what may not rest or minds its own
//     orders, and amends; book_parts.go has orders that meet very many, book_halt.go
//     what operators do. Only book_levels.go knows what is below: price levels
//     (book_ladder*.go), orders in memory (book_slab.go, book_node.go,
//     book_executions.go), and how an id finds its order (book_index.go).
//   - ledger: who owns what, and how an account is found; ledger_instructed.go has the holds
//     of orders at market and of amends.
//   - state: all of it together: replay (state.go), snapshot, digest, comparison, audit,
//     and the refs that were used.
//
// The parts, in the order in which an order meets them:
//
//   - Command is what a client asks, Result what it is told.
//   - Ledger knows who owns what. Reserve sets aside what an order could spend
//     before the order may reach a book.
//   - Book holds the resting orders of one symbol and matches by price and time.
//   - Event is everything that one command did, or one part of an order that meets
//     very many. A journal of events rebuilds every book and the ledger.
//   - Refs knows which commands were named by their client, so that none of them
//     is done twice.
//
// Money and shares are integers. A Price is an int64 count of 10^-8 dollars, a
// Shares an int64 count of 10^-8 shares, and Cash a 128-bit count of 10^-16
// dollars, so that shares × price needs no rounding. The limits of the protocol
// (docs/PROTOCOL.md, section "Values") keep every sum below 2^127; arithmetic
// that would still overflow is a bug and panics.
package exchange
