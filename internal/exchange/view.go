package exchange

// AccountView is an account as its owner sees it, after a record. It does not change once it is
// in a Result.
type AccountView struct {
	ID        AccountID
	Balance   Cash           // free: what it could spend
	Held      Cash           // by its open buys
	Positions []PositionView // sorted by symbol, without empty ones
	N         uint64         // of its newest AccountEvent
	LastFill  uint64         // the number of its newest fill
}

// PositionView is a position in an AccountView.
type PositionView struct {
	Symbol Symbol
	Shares Position // free: what it could sell
	Held   Position // by its open sells
}

// OrdersView is a page of an account's open orders.
type OrdersView struct {
	Orders []OpenOrder // by id
	More   OrderID     // further ones may come after this id; 0 if these are the last
}

// OpenOrder is an order in an OrdersView.
type OpenOrder struct {
	ID     OrderID
	Symbol Symbol
	Terms
	OnDisconnect bool   // cod
	Total        Shares // executed, by it and those that it replaced, and open: what an amend's amount names
	Open         Shares
	Time         int64 // when its own record was written, nanoseconds since the Unix epoch
}

// FillsView is a page of an account's executions.
type FillsView struct {
	Fills []AccountFill // by number
	More  uint64        // further ones come after this number; 0 if these are the last
	Last  uint64        // the number of the account's newest fill, 0 if there is none
}

// AccountFill is one execution as one of its two accounts sees it.
type AccountFill struct {
	// N counts the account's executions 1, 2, 3 without a gap: by journal record, in a record by fill, the
	// resting side first where both are the account's.
	N      uint64
	Order  OrderID
	Symbol Symbol
	Side   Side
	Shares Shares
	Price  Price
	Time   int64  // nanoseconds since the Unix epoch
	Trade  uint64 // the trade's number of its symbol, as in market data; 0 if it is older than the tables have it
	Maker  bool   // its order was resting
}

// ViewPageMax is how many orders or fills a page of a view has at the most.
const ViewPageMax = 1000

// Views reports whether a command of this kind is answered by the view of accounts. Its result
// is InView with ResultMore.View until the view has completed it.
func (k CommandKind) Views() bool { return k == ShowAccount || k == ListOrders || k == ListFills }
