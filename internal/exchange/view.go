package exchange

// AccountView is an account as its owner sees it, as of a record. It is immutable once it is in a Result.
type AccountView struct {
	ID        AccountID
	Balance   Cash           // free cash, which the account can spend
	Held      Cash           // cash held by open buys
	Positions []PositionView // sorted by symbol, without empty positions
	N         uint64         // number of its newest AccountEvent
	LastFill  uint64         // number of its newest fill
}

// PositionView is a position in an AccountView.
type PositionView struct {
	Symbol Symbol
	Shares Position // free shares, which the account can sell
	Held   Position // shares held by open sells
}

// OrdersView is a page of an account's open orders.
type OrdersView struct {
	Orders []OrderDetail // sorted by id
	More   OrderID       // there may be more orders after this id; 0 on the last page
}

// FillsView is a page of an account's executions.
type FillsView struct {
	Fills []AccountFill // sorted by number
	More  uint64        // there are more fills after this number; 0 on the last page
	Last  uint64        // number of the account's newest fill, 0 if it has none
}

// AccountFill is one execution as seen by one of its two accounts.
type AccountFill struct {
	// N counts the account's executions 1, 2, 3, … without gaps: in order of journal record and of fill; if both
	// sides are the account's, the resting side comes first.
	N      uint64
	Order  OrderID
	Symbol Symbol
	Side   Side
	Shares Shares
	Price  Price
	Time   int64  // nanoseconds since the Unix epoch
	Trade  uint64 // number of the trade within its symbol, as in market data; 0 if the trade is older than the tables
	Maker  bool   // the account's order was resting
}

// ViewPageMax is the maximum number of orders or fills on a page of a view.
const ViewPageMax = 1000

// Views reports whether commands of this kind are answered from the view of accounts: the engine leaves their result
// pending as InView.
func (k CommandKind) Views() bool { return k == ShowAccount || k == ListOrders || k == ListFills }
