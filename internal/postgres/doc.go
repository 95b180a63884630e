// Package postgres keeps the projection of the journal: tables of accounts, positions, orders and executions that
// people can query. It only follows the journal and makes no decisions. It may lag, be down, or be rebuilt.
//
//   - Store is the connection that may write. There is one at a time for a
//     database: it holds an advisory lock and the highest epoch.
//   - Store.Load reads the state that a start begins with. Its cost depends on
//     the open orders, not on history.
//   - Projector tails the journal and applies it in batches. A batch is one
//     transaction that also moves exchange_state.applied_seq, so that applying a
//     record twice is impossible.
//   - History answers for orders that memory no longer holds.
//   - Archive reads the journal back out of the tables, for callers that check them.
//
// The schema is in the migrations folder. Package local runs a local cluster.
package postgres
