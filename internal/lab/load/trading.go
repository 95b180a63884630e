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

// Trading is a run of orders through clients that connect again, perhaps to another address,
// and send again what has a ref: what traders see while an exchange fails over. It keeps what
// it was told, and asks afterwards for each order. Each has a ref.
type Trading struct {
	Addr        string         // one, or several with commas between them
	Client      client.Options // of each connection
	Connections int
	Depth       int           // orders under way on each connection
	Rate        int           // orders a second of all connections together; 0: as many as possible
	Duration    time.Duration // how long orders are sent
	Orders      int           // at the most so many
	Symbols     int
	Accounts    string // digits that the ids of its accounts begin with, two for each connection
	Run         string // what the refs of orders begin with: different for each run on an exchange
	Progress    func(Progress)
}

// OrdersMax bounds Trading.Orders: what was told of each is kept in memory.
const OrdersMax = 10_000_000

// Traded is what a Trading came to.
type Traded struct {
	*Result           // of the orders with an answer
	Refused    uint64 // answered with an error
	Unanswered uint64 // whose connection broke, or whose answer did not come; they may have been done
	Why        string // of one of them
	Longest    Gap
	Failovers  uint64 // how often the connection that changed most was made again
	Reconnects uint64 // of all connections
	SentAgain  uint64 // orders, after a connection had broken

	Asked   uint64 // orders that were asked for afterwards
	Done    uint64 // of the unanswered, that were done
	Lost    uint64 // answered with a number, and not there
	Doubled uint64 // answered with a number, and there under another one
	// Others is how many numbers between the first and the last order are nobody's here. If
	// nobody else trades it is 0, or orders were done twice.
	Others  uint64
	Example string // of what is lost or doubled
}

// Gap is a time without an answer.
type Gap struct {
	From   time.Duration // since the begin
	Length time.Duration
}

// order is one that was sent: number counts them, id is the exchange's, 0 without an answer.
type order struct {
	number uint64
	id     client.OrderID
	sure   bool // it was answered: with a number, or a refusal if id is 0
}

// trader is a connection with what was told over it.
type trader struct {
	*client.Client
	buyer, seller string

	mu     sync.Mutex // guards orders
	orders []order
}

// trading is a Trading under way.
type trading struct {
	Trading
	traders  []*trader
	recorder *Recorder
	schedule Schedule
	next     atomic.Uint64 // order
	last     atomic.Int64  // answer, in nanoseconds since the begin
	refused  atomic.Uint64
	fail     context.CancelCauseFunc

	mu  sync.Mutex // guards what follows
	gap Gap
	why string
}

// Trade makes the accounts and symbols, which stay, sends orders, and asks for each of them.
// The error says what was refused of the preparation, that a connection cannot be made, or
// that the orders could not be asked for; Traded is then what is known, nil before the run.
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

// prepare connects and makes what is traded. Every command of it has a ref, so a second run on the
// same exchange finds what the first has made.
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

// made returns what a trader needs.
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

// riches are the dollars and shares that accounts begin with.
var riches = client.Whole(1_000_000_000_000)

// price is that of all orders: every two of a symbol execute.
var price = client.Whole(100)

func (t *trading) symbol(n int) string { return fmt.Sprintf("BENCH%d", n) }

// ref names an order of this run.
func (t *trading) ref(number uint64) string { return fmt.Sprintf("%s:%d", t.Run, number) }

// command is an order to be sent: one buys, the next sells, so that books stay small.
func (t *trading) command(x *trader, number uint64) client.Command {
	sym := t.symbol(int(number / 2 % uint64(t.Symbols)))
	c := client.Buy(x.buyer, sym, client.Whole(1), price)
	if number%2 == 1 {
		c = client.Sell(x.seller, sym, client.Whole(1), price)
	}
	return c.WithRef(t.ref(number))
}

// send sends orders until the time is up, or so many were sent, and waits for their ends.
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

// errorPause is how long a sender waits after an order without an answer: an exchange that is
// away must not be asked in a loop.
const errorPause = 10 * time.Millisecond

// one sends the next order and takes what it comes to. It returns false if there is none.
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
	x.note(order{number, results[0].Order, true})
	return true
}

func (x *trader) note(o order) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.orders = append(x.orders, o)
}

// unanswered notes an order without an answer. If a further one would end alike, the run ends.
func (t *trading) unanswered(x *trader, number uint64, err error) {
	x.note(order{number: number})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = err.Error()
	if !errors.As(err, new(*client.Broken)) && !errors.As(err, new(*client.GaveUp)) ||
		errors.As(err, new(*client.Unauthorized)) {
		t.fail(fmt.Errorf("load: %w", err))
	}
}

// answered notes an answer, and the time without one before it if that was the longest.
func (t *trading) answered(at time.Time) {
	now := int64(at.Sub(t.recorder.began))
	before := t.last.Swap(now)
	length := time.Duration(now - before)
	const short = time.Millisecond // nobody cares, and all would meet at the lock
	if length < short {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if length > t.gap.Length {
		t.gap = Gap{time.Duration(before), length}
	}
}

// connections returns how many each trader has made.
func (t *trading) connections() (made []uint64) {
	for _, x := range t.traders {
		made = append(made, x.Stats().Connections)
	}
	return made
}

// traded returns what the run came to, before the orders are asked for.
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
