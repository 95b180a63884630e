package exchange

// CommandKind says what a Command asks.
type CommandKind uint8

// The commands. Each is one element of the protocol, except MakeSymbol, which
// every <symbol> asks once, before its accounts, and for ShowOrder, which the
// protocol does not have: it asks for an order without being an account.
const (
	OpenAccount   CommandKind = iota + 1 // Account, Balance, Ref
	MakeSymbol                           // Symbol; done already is fine
	DepositShares                        // Symbol, Account, Deposited, Ref
	PlaceOrder                           // Account, Symbol, Terms, Shares, Ref
	QueryOrder                           // Account, Order or Ref
	CancelOrder                          // Account, Order or Ref
	ShowOrder                            // Order

	// AmendOrder has the new total in Shares, with its side in Terms.Side, and the new limit in Terms.Limit;
	// each is 0 where it is to stay.
	AmendOrder     // Account, Order or Ref, Shares, Terms, Report, More.NewRef
	CancelAll      // Account, Symbol or "" for all
	SetSwitch      // Account, More.Seconds; 0 disarms
	ShowAccount    // Account
	ListOrders     // Account, Symbol or "" for all, More.After
	ListFills      // Account, More.After
	commandKindMax = ListFills
)

// CommandKinds returns how many kinds of commands there are: they are numbered from 1.
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

// Tells reports whether a command of this kind is answered with what has become of an order.
func (k CommandKind) Tells() bool { return k == QueryOrder || k == CancelOrder }

// Command is one thing that a client asks. Its values have passed the Parse
// functions of this package; the fields that a kind does not name are zero.
type Command struct {
	Kind         CommandKind
	OnDisconnect bool // cod of a PlaceOrder
	Report       bool // a PlaceOrder or an AmendOrder is answered with what it did at once

	Account   AccountID
	Symbol    Symbol
	Balance   Cash
	Deposited Position
	Terms     // of an order, with Shares
	Shares    Shares
	Order     OrderID
	Ref       Ref // "" is none

	More *CommandMore // of kinds that few clients use; nil means zero values
}

// CommandMore is what few commands have.
type CommandMore struct {
	NewRef Ref // of an AmendOrder
	// Open says that the Shares of an AmendOrder are what is to be open, whatever has executed, and not the total.
	Open bool
	// Rules are, of a MakeSymbol, the Tick and the Lot, 0 where they were not sent. A DepositShares in the same
	// <symbol> has them too: it is refused as RulesDiffer where that was.
	Rules   SymbolRules
	Seconds int // of a SetSwitch
	// After is the order id, or the number of the fill, after which a list begins. After 0 with HasAfter
	// unset lists the newest fills.
	After    uint64
	HasAfter bool
}

// ReportExecutionsMax is how many executions a report has at the most. One more in the result says that
// there are more.
const ReportExecutionsMax = 1000

// Result is what one Command came to. Reason is OK when it was done; otherwise
// nothing changed.
type Result struct {
	Reason RejectReason
	// Order is the order's id after an accepted PlaceOrder, and after a QueryOrder or a
	// CancelOrder that names the order by its ref.
	Order OrderID
	// CashHave is what the account could spend, after InsufficientFunds.
	CashHave Cash
	// SharesHave is what the account could sell, after InsufficientShares.
	SharesHave Position
	// Most is the bound that is reached, after SymbolLimitExceeded, AccountLimitExceeded,
	// AccountOrdersExceeded, OpenOrdersExceeded and ReplyTooLong.
	Most int64
	// Status is the answer to an accepted QueryOrder or CancelOrder.
	Status Status
	// Amended is what an AmendOrder did, with Order: the order as it was named.
	Amended *Amended
	// More has what few results have; nil means zero values.
	More *ResultMore
	// Seen is, with InHistory, the last record that the history had when the order was
	// looked for: an order of a later one was not there then.
	Seen uint64
	// Seq is the newest record that the command wrote, 0 if it wrote none: also of a ref that was used before.
	Seq uint64
}

// Status is what has become of an order (docs/PROTOCOL.md, section "query").
type Status struct {
	Open       Shares      // still in the book; 0 when nothing is
	Canceled   Shares      // taken back by a cancel; 0 when it was not canceled
	CanceledAt int64       // nanoseconds since the Unix epoch, when Canceled is not 0
	Executions []Execution // oldest first
	Changes    *Changes    // what amends did to it; nil where there was none
}

// Changes is what amends did to an order. It does not change once it is in a Status.
type Changes struct {
	Replaced  OrderID // the order that replaced it, 0 where none did
	Reduced   Shares  // taken off in place, by all amends
	ReducedAt int64   // by the newest of them, nanoseconds since the Unix epoch
}

// Amended is what an AmendOrder came to.
type Amended struct {
	By      OrderID // the order that replaced it; 0 where it was reduced in place, or nothing changed
	Open    Shares  // open of the order after it, where By is 0
	Reduced Shares  // taken off by this amend, and when
	Time    int64   // nanoseconds since the Unix epoch, where Reduced is not 0
}

// ResultMore has the values that the texts of some refusals name, and what some kinds are answered with.
type ResultMore struct {
	Count    int    // orders that a CancelAll canceled
	Could    Shares // after CannotFill: what could be filled at once
	Best     Price  // after WouldExecute: the other side's best price; after OutsideBand: the bound of the band
	Needs    Cash   // after InsufficientFunds of a market order: what its fills would cost
	OrMore   bool   // what Needs says is only the first part of it
	Executed Shares // after AmountExecuted
	Least    *Cash  // after OrderTooSmall: what an order has to be worth
	Halt     *Halt  // after Halted: since when and why
	Rules    SymbolRules
	Reason   string // after Blocked: the operator's; after NotReadYet: which node
	// View is what a ShowAccount, ListOrders or ListFills waits for: the record up to which the view has to be.
	View uint64
	// Bound is the limit that is exceeded, as text, after OrderTooLarge and NotionalExceeded.
	Bound string
	// Asked is what the texts of a refused amend are about: the order that it would have made, and in Order the one that
	// it was to replace. A nil one is what the client sent.
	Asked *Command
	// Shown is the answer to an accepted ShowOrder.
	Shown *PublicOrder
	// Cut says that there is no room in a reply for the executions of a report. A session sets it.
	Cut bool
	// Of the three, the one that is asked for by a ShowAccount, a ListOrders or a ListFills that was done.
	AccountView *AccountView
	OrdersView  *OrdersView
	FillsView   *FillsView
}

// Execution is one owner's view of one fill.
type Execution struct {
	Shares Shares
	Price  Price
	Time   int64 // nanoseconds since the Unix epoch
}

// ClosedOrder is an order that has nothing open any more, as history has it.
type ClosedOrder struct {
	Account AccountID
	Seq     uint64 // of the record that accepted it, 0 if it is older than history
	PublicOrder
}
