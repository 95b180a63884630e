package exchange

// CommandKind is the kind of a Command.
type CommandKind uint8

// The commands, and the fields that each uses. Each is one element of the protocol, with two
// exceptions: MakeSymbol is sent once for each <symbol>, before its accounts, and ShowOrder,
// which is not in the protocol, reads an order without belonging to an account.
const (
	OpenAccount   CommandKind = iota + 1 // Account, Balance, Ref
	MakeSymbol                           // Symbol; succeeds if the symbol exists already
	DepositShares                        // Symbol, Account, Deposited, Ref
	PlaceOrder                           // Account, Symbol, Terms, Shares, Ref
	QueryOrder                           // Account, Order or Ref
	CancelOrder                          // Account, Order or Ref
	ShowOrder                            // Order

	// AmendOrder has the new total in Shares, with the side in Terms.Side, and the new limit in Terms.Limit;
	// each is 0 if it does not change.
	AmendOrder     // Account, Order or Ref, Shares, Terms, Report, More.NewRef
	CancelAll      // Account, Symbol or "" for all
	SetSwitch      // Account, More.Seconds; 0 disarms
	ShowAccount    // Account
	ListOrders     // Account, Symbol or "" for all, More.After
	ListFills      // Account, More.After
	commandKindMax = ListFills
)

// CommandKinds returns the number of command kinds. They are numbered from 1.
func CommandKinds() int { return int(commandKindMax) }

// String returns the name that metrics and logs use.
func (k CommandKind) String() string {
	switch k {
	case OpenAccount:
		return "account"
	case MakeSymbol:
		return "symbol"
	case DepositShares:
		return "place"
	case PlaceOrder:
		return "order"
	case QueryOrder:
		return "query"
	case CancelOrder:
		return "cancel"
	case ShowOrder:
		return "show"
	case AmendOrder:
		return "amend"
	case CancelAll:
		return "cancel-all"
	case SetSwitch:
		return "cancel-after"
	case ShowAccount:
		return "account-view"
	case ListOrders:
		return "orders-view"
	case ListFills:
		return "fills-view"
	}
	return "unknown"
}

// Tells reports whether the reply to a command of this kind contains the status of an order.
func (k CommandKind) Tells() bool { return k == QueryOrder || k == CancelOrder }

// Command is one request of a client. Its values have passed the Parse functions of
// this package; fields that its kind does not name are zero.
type Command struct {
	Kind         CommandKind
	OnDisconnect bool // cod of a PlaceOrder: cancel the order when its connection ends
	Report       bool // the reply to a PlaceOrder or an AmendOrder contains what it executed at once

	Account   AccountID
	Symbol    Symbol
	Balance   Cash
	Deposited Position
	Terms     // terms of an order, together with Shares
	Shares    Shares
	Order     OrderID
	Ref       Ref // client order id; "" if the client gave none

	More *CommandMore // fields of rarely used kinds; nil means zero values
}

// CommandMore has the rarely used fields of a Command.
type CommandMore struct {
	NewRef Ref // the ref of an AmendOrder itself
	// Open is set if the Shares of an AmendOrder are the new open shares, whatever has executed, and not the new total.
	Open bool
	// Rules has the Tick and the Lot of a MakeSymbol, 0 if they were not sent. A DepositShares in the same
	// <symbol> has them too: it is rejected as RulesDiffer if the MakeSymbol was.
	Rules   SymbolRules
	Seconds int // delay of a SetSwitch
	// After is the order id, or the number of the fill, after which a list begins. ListFills with After 0 and
	// HasAfter unset lists the newest fills.
	After    uint64
	HasAfter bool
}

// ReportExecutionsMax is the maximum number of executions in a report. A Result has one more if there are
// more.
const ReportExecutionsMax = 1000

// Result is the outcome of one Command. If Reason is not OK, the command changed
// nothing.
type Result struct {
	Reason RejectReason
	// Pending names the source of the part of the result that is still missing. Until that part is read, Reason is
	// the rejection to send if the source does not answer.
	Pending Source
	// Cut is set by a session if the executions of a report do not fit into the reply.
	Cut bool
	// Work is how much work the records of the command are for the followers of the journal: the sum of their Event.Work.
	// It is 0 if the command wrote none.
	Work uint32
	// Order is the order's id after an accepted PlaceOrder, and after a QueryOrder or a
	// CancelOrder that named the order by its ref.
	Order OrderID
	// CashHave is what the account could spend, after InsufficientFunds.
	CashHave Cash
	// SharesHave is what the account could sell, after InsufficientShares.
	SharesHave Position
	// Most is the limit that was reached, after SymbolLimitExceeded, AccountLimitExceeded,
	// AccountOrdersExceeded, OpenOrdersExceeded and ReplyTooLong.
	Most int64
	// Status is the order's status after an accepted QueryOrder or CancelOrder.
	Status Status
	// Amended is the result of an AmendOrder. Order is then the order that the command named.
	Amended *Amended
	// Answer is the result of a CancelAll, ShowOrder, ShowAccount, ListOrders or ListFills; nil after other
	// commands.
	Answer *Answer
	// Details has the values in a rejection's message other than CashHave, SharesHave and Most; nil means zero
	// values.
	Details *RejectDetails
	// AsOf is the seq of a record, set if the result is pending. The view must have applied the record before it
	// answers. A query or a cancel ignores orders in the history with later records; a repeated report needs a
	// history that has the record.
	AsOf uint64
	// Seq is the seq of the newest record that the command wrote, 0 if it wrote none. A repeated command, whose ref was
	// used before, writes none.
	Seq uint64
}

// Source holds the part of a Result that is still missing after the engine has executed the command.
type Source uint8

// The sources.
const (
	Nowhere   Source = iota // the result is complete
	InHistory               // the order is only in Postgres
	InView                  // the view of accounts has the answer
)

// Status is the state of an order (docs/PROTOCOL.md, section "query").
type Status struct {
	Open       Shares      // shares still in the book
	Canceled   Shares      // shares that were canceled; 0 if the order was not canceled
	CanceledAt int64       // nanoseconds since the Unix epoch, if Canceled is not 0
	Executions []Execution // oldest first
	Changes    *Changes    // what amends changed; nil if there were none
}

// Changes describes what amends changed in an order. It is immutable once it is in a Status.
type Changes struct {
	Replaced  OrderID // the order that replaced it, or 0
	Reduced   Shares  // shares removed by amends in place, in total
	ReducedAt int64   // time of the newest amend in place, nanoseconds since the Unix epoch
}

// Amended is the result of an AmendOrder.
type Amended struct {
	By      OrderID // the order that replaced the amended one; 0 if it was reduced in place, or nothing changed
	Open    Shares  // open shares of the order after the amend, if By is 0
	Reduced Shares  // shares that this amend removed in place
	Time    int64   // time of the reduction, nanoseconds since the Unix epoch; set if Reduced is not 0
}

// Answer is the result of an accepted command about a whole account, or about an order of any account. Each command
// sets one field.
type Answer struct {
	Canceled int          // CancelAll: the number of orders
	Shown    *PublicOrder // ShowOrder
	Account  *AccountView // ShowAccount
	Orders   *OrdersView  // ListOrders
	Fills    *FillsView   // ListFills
}

// RejectDetails has the values that some reject messages contain. Each comment names the reasons that set the field.
type RejectDetails struct {
	Could    Shares      // CannotFill: shares that could be filled at once
	Best     Price       // WouldExecute: the best price on the other side; OutsideBand: the limit of the price band
	Needs    Cash        // InsufficientFunds of a market order: the cost of its fills; OrderTooSmall, NotionalExceeded
	OrMore   bool        // InsufficientFunds: Needs is the cost of only the first part of the order
	Executed Shares      // AmountExecuted: shares executed
	Least    *Cash       // OrderTooSmall: the minimum notional of an order
	Halt     *Halt       // Halted: the halt
	Rules    SymbolRules // OffTick, OffLot, RulesDiffer
	Reason   string      // Blocked: the operator's reason; NotReadYet: which node, and why
	// Bound is the exceeded limit, as text: OutsideBand, OrderTooLarge, NotionalExceeded, AccountOrdersExceeded,
	// RateExceeded if it is not that of orders and creates.
	Bound string
	// Asked is the command that the message of a rejected amend describes: the order that the amend would have
	// made, with the order to be replaced in Order. If it is nil, the message describes the client's own command.
	Asked *Command
}

// Execution is one owner's view of one fill.
type Execution struct {
	Shares Shares
	Price  Price
	Time   int64 // nanoseconds since the Unix epoch
}

// ClosedOrder is an order without open shares, as the history stores it.
type ClosedOrder struct {
	Account AccountID
	Seq     uint64 // record that accepted the order; 0 if it is older than the history
	PublicOrder
}
