// Package exchange is the pure core of Outcry: exact numbers, commands and their
// results, the order book, the ledger, and the events that a journal keeps. It does
// no I/O, reads no clock, draws no random numbers, starts no goroutine and writes no
// log: time, ids and limits are arguments, and the same inputs give the same bytes.
//
// Read the files in this order; the file names of each part begin with the part's name:
//
//   - money: exact numbers, and how they are parsed and printed.
//   - order: commands and results (command.go), what is public (order_public.go), client
//     order ids (order_ref.go), the history of amends (order_lineage.go), an operator's
//     rules (order_rules.go), and journal events: what a record is (event.go), its encoding
//     (event_codec.go; event_fields.go has its groups of fields), which records are valid
//     (event_check.go), and what a record moves between accounts (postings.go).
//   - book: book.go matches; book_instructed.go matches orders that may not rest or that
//     prevent self-trades, and amends orders; book_parts.go handles orders that meet very
//     many resting orders; book_halt.go halts and resumes a symbol. Only book_levels.go
//     knows the layers below: price levels (book_ladder*.go), orders in memory
//     (book_slab.go, book_node.go, book_executions.go), and the index from id to order
//     (book_index.go).
//   - ledger: cash, positions and holds, and how an account is found; ledger_instructed.go
//     has the holds of market orders and of amends.
//   - state: the whole exchange: replay (state.go), snapshot, digest, comparison, audit,
//     and used refs.
//
// The types, in the order in which an order meets them:
//
//   - Command is a client's request, Result the reply to it.
//   - Ledger keeps cash and shares. Reserve sets aside what an order could spend
//     before the order reaches a book.
//   - Book holds the resting orders of one symbol and matches by price and time.
//   - Event is everything that one command did, or one part of an order that meets
//     very many resting orders. A journal of events rebuilds all books and the ledger.
//   - Refs records which commands had a ref, so that none of them is executed twice.
//
// Money and shares are integers. A Price is an int64 count of 10^-8 dollars, a
// Shares an int64 count of 10^-8 shares, and Cash a 128-bit count of 10^-16
// dollars, so that shares × price needs no rounding. The limits of the protocol
// (docs/PROTOCOL.md, section "Values") keep every sum below 2^127; arithmetic
// that would still overflow is a bug and panics.
package exchange
