package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"outcry/clients/go/client"
)

// Trading is a load of orders through clients that reconnect, perhaps to another address, and resend orders by ref: it
// measures what traders experience during a failover. It remembers the answers, and queries each order afterwards.
// Each order has a ref.
type Trading struct {
	Addr        string         // one address, or several separated by commas
	Client      client.Options // options of each connection
	Connections int
	Depth       int           // unanswered orders on each connection, at most
	Rate        int           // orders a second of all connections together; 0 means as many as possible
	Duration    time.Duration // how long orders are sent
	Orders      int           // limit on the number of orders
	Symbols     int
	Accounts    string // digits that the account ids begin with; each connection has two accounts
	Run         string // prefix of the orders' refs; must differ between runs on an exchange
	Progress    func(Progress)
}

// OrdersMax is the upper bound of Trading.Orders: the answer to each order is kept in memory.
const OrdersMax = 10_000_000

// Traded is the outcome of a Trading.
type Traded struct {
	*Result           // of the answered orders
	Refused    uint64 // orders answered with an error
	Unanswered uint64 // orders without an answer; they may have been executed
	Why        string // the error of one of them
	Longest    Gap
	Failovers  uint64 // most reconnects of a single connection
	Reconnects uint64 // reconnects of all connections
	SentAgain  uint64 // orders sent again after a connection had broken

	Asked   uint64 // orders queried afterwards
	Done    uint64 // unanswered orders that were executed
	Lost    uint64 // orders that were answered with an id and do not exist
	Doubled uint64 // orders that were answered with one id and exist with another
	// Others is how many ids between the first and the last order do not belong to this run. If nothing else
	// trades, a value above 0 means that orders were executed twice.
	Others  uint64
	Example string // describes one lost or doubled order
}

// Gap is a period without an answer.
type Gap struct {
	From   time.Duration // since the start of the run
	Length time.Duration
}

// order is a sent order. number counts the run's orders; id is the exchange's, or 0 without an answer.
type order struct {
	number uint64
	id     client.OrderID
	sure   bool // answered: accepted if id is not 0, else rejected
}

// trader is a connection with the orders sent over it.
type trader struct {
	*client.Client
	buyer, seller string

	mu     sync.Mutex // guards orders
	orders []order
}

// trading is a running Trading.
type trading struct {
	Trading
	traders  []*trader
	recorder *Recorder
	schedule Schedule
	next     atomic.Uint64 // number of the next order
	last     atomic.Int64  // time of the last answer, in nanoseconds since the start
	refused  atomic.Uint64
	fail     context.CancelCauseFunc

	mu  sync.Mutex // guards the fields below
	gap Gap
	why string
}

// Trade opens the accounts and symbols, which are not removed afterwards, sends orders, and queries each of them. It
// returns an error if a preparing command was rejected, a connection could not be made, or the orders could not be
// queried. Traded then has the results so far, or is nil if the run did not begin.
func Trade(ctx context.Context, o Trading) (*Traded, error) {
	t := &trading{Trading: o}
	defer func() {
		for _, c := range t.traders {
			_ = c.Close()
		}
	}()
	if err := t.prepare(ctx); err != nil {
		return nil, err
	}
	before := t.connections()
	running, fail := context.WithCancelCause(ctx)
	t.fail = fail
	t.send(running)
	fail(nil)
	if err := context.Cause(running); !errors.Is(err, context.Canceled) {
		return nil, err
	}
	traded := t.traded(before)
	return traded, t.check(ctx, traded)
}

// prepare connects and makes accounts and symbols. Each of its commands has a ref, so a second run on the same
// exchange uses the accounts and symbols of the first.
func (t *trading) prepare(ctx context.Context) error {
	for n := range t.Connections {
		c, err := client.Dial(ctx, t.Addr, t.Client)
		if err != nil {
			return fmt.Errorf("load: connection %d: %w", n+1, err)
		}
		t.traders = append(t.traders, &trader{Client: c,
			buyer: fmt.Sprintf("%s%d", t.Accounts, 2*n), seller: fmt.Sprintf("%s%d", t.Accounts, 2*n+1)})
	}
	for _, x := range t.traders {
		results, err := x.Do(ctx, t.made(x)...)
		if err != nil {
			return fmt.Errorf("load: prepare: %w", err)
		}
		for i := range results {
			if err := results[i].Err(); err != nil {
				return fmt.Errorf("load: prepare: %w", err)
			}
		}
	}
	return nil
}

// made returns the commands that make the accounts and symbols of a trader.
func (t *trading) made(x *trader) []client.Command {
	commands := []client.Command{client.OpenAccount(x.buyer, riches), client.OpenAccount(x.seller, riches)}
	for s := range t.Symbols {
		commands = append(commands, client.Place(t.symbol(s), x.seller, riches))
	}
	for i := range commands {
		commands[i] = commands[i].WithRef("bench" + commands[i].Symbol)
	}
	return commands
}

// riches is the initial balance in dollars and the deposit in shares of each account.
var riches = client.Whole(1_000_000_000_000)

// price is the limit of all orders, so that every two orders of a symbol execute.
var price = client.Whole(100)

func (t *trading) symbol(n int) string { return fmt.Sprintf("BENCH%d", n) }

// ref returns the ref of an order of this run.
func (t *trading) ref(number uint64) string { return fmt.Sprintf("%s:%d", t.Run, number) }

// command returns order number's command. Buys and sells alternate, so that books stay small.
func (t *trading) command(x *trader, number uint64) client.Command {
	sym := t.symbol(int(number / 2 % uint64(t.Symbols)))
	c := client.Buy(x.buyer, sym, client.Whole(1), price)
	if number%2 == 1 {
		c = client.Sell(x.seller, sym, client.Whole(1), price)
	}
	return c.WithRef(t.ref(number))
}

// send sends orders until the time is up or all orders are sent, and waits for the outstanding ones.
func (t *trading) send(ctx context.Context) {
	t.recorder = NewRecorder(Options{Duration: t.Duration, Progress: t.Progress})
	if t.Rate > 0 {
		t.schedule = NewSchedule(t.Rate, t.Duration)
	}
	defer t.recorder.Report()()
	var running sync.WaitGroup
	for _, x := range t.traders {
		for range t.Depth {
			lane := t.recorder.OpenLane()
			running.Go(func() {
				defer lane.Flush()
				for t.one(ctx, x, lane) {
				}
			})
		}
	}
	running.Wait()
}

// errorPause is how long a sender waits after an order without an answer, to avoid a busy loop while the
// exchange is away.
const errorPause = 10 * time.Millisecond

// one sends the next order and records its outcome. It returns false if there are no more orders.
func (t *trading) one(ctx context.Context, x *trader, lane *Lane) bool {
	number := t.next.Add(1) - 1
	due := time.Now()
	switch {
	case number >= uint64(t.Orders):
		return false
	case t.Rate > 0:
		if t.schedule.Over(number, time.Since(t.recorder.began)) {
			return false
		}
		due = t.recorder.began.Add(t.schedule.Due(number))
		if !sleep(ctx, time.Until(due)) {
			return false
		}
	case ctx.Err() != nil, time.Since(t.recorder.began) >= t.Duration:
		return false
	}
	sent := time.Now()
	results, err := x.Do(ctx, t.command(x, number))
	now := time.Now()
	if err != nil {
		t.unanswered(x, number, err)
		return sleep(ctx, errorPause)
	}
	t.answered(now)
	lane.Add(due, sent, now, results[0].Err())
	if results[0].Refused != nil {
		t.refused.Add(1)
	}
	x.remember(order{number, results[0].Order, true})
	return true
}

func (x *trader) remember(o order) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.orders = append(x.orders, o)
}

// unanswered records an order without an answer. It ends the run if the error is permanent.
func (t *trading) unanswered(x *trader, number uint64, err error) {
	x.remember(order{number: number})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = err.Error()
	if !errors.As(err, new(*client.Broken)) && !errors.As(err, new(*client.GaveUp)) ||
		errors.As(err, new(*client.Unauthorized)) {
		t.fail(fmt.Errorf("load: %w", err))
	}
}

// answered records an answer, and the gap before it if that is the longest so far.
func (t *trading) answered(at time.Time) {
	now := int64(at.Sub(t.recorder.began))
	before := t.last.Swap(now)
	length := time.Duration(now - before)
	const short = time.Millisecond // ignored: recording short gaps would make all senders contend for the lock
	if length < short {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if length > t.gap.Length {
		t.gap = Gap{time.Duration(before), length}
	}
}

// connections returns how many connections each trader has made.
func (t *trading) connections() (made []uint64) {
	for _, x := range t.traders {
		made = append(made, x.Stats().Connections)
	}
	return made
}

// traded returns the outcome of the run as known before the orders are queried.
func (t *trading) traded(before []uint64) *Traded {
	r := &Traded{Result: t.recorder.Result(nil), Refused: t.refused.Load(), Why: t.why, Longest: t.gap}
	for n, x := range t.traders {
		s := x.Stats()
		r.Failovers = max(r.Failovers, s.Connections-before[n])
		r.Reconnects += s.Connections - before[n]
		r.SentAgain += s.SentAgain
		for _, o := range x.orders {
			if !o.sure {
				r.Unanswered++
			}
		}
	}
	return r
}
