// Package books checks that readers of an exchange see its true state. The published ways of keeping a
// local book (by U and u of the Binance-shaped API, by the chain and checksum of our own) must give
// exactly the exchange's book. Private events must be numbered without a gap, with no fill lost or
// doubled. Both must hold while connections break and the exchange is killed or fails over.
//
// Watchers read all the time. While no client trades, Check compares their state with the tables, which
// are filled from the journal independently of what the watchers read.
package books

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"outcry/clients/go/client"
	"outcry/clients/go/stream"
)

// Options configure watchers.
type Options struct {
	HTTP     func() []string // returns the current addresses of the nodes; called at any time
	Symbols  []string
	Accounts []string
	Seed     uint64
	// Break is the mean time after which a watcher closes its connection and makes another; 0 means never.
	Break time.Duration
}

const (
	// pauseMax is the longest delay before a watcher or its client library reconnects.
	pauseMax = 200 * time.Millisecond
	// silenceMax is how long a connection may have no message or ping before it counts as lost. The
	// exchange pings every 20 seconds.
	silenceMax = 30 * time.Second
	// agreeTimeout is how long watchers may take to reach the final state once no client trades.
	agreeTimeout = 60 * time.Second
	// agreePoll is how often watchers are compared.
	agreePoll = 20 * time.Millisecond
	// wrongMax is how many violations are kept.
	wrongMax = 20
)

// Counts count what watchers have received.
type Counts struct {
	Updates     int64 `json:"updates_of_books"` // of all kinds of watchers
	Trades      int64 `json:"trades"`
	Events      int64 `json:"private_events"`
	Fills       int64 `json:"private_fills"`
	Connections int64 `json:"connections"`
	SleptOver   int64 `json:"fills_and_trades_asked_for_afterwards"`
	Snapshots   int64 `json:"private_snapshots"`
	Compared    int64 `json:"books_compared_with_the_tables"`
}

// String returns the counts in words.
func (c Counts) String() string {
	return fmt.Sprintf("%d updates of books, %d trades, %d private events with %d fills, over %d connections "+
		"(%d fills and trades asked for afterwards, %d private snapshots); %d books compared with the tables",
		c.Updates, c.Trades, c.Events, c.Fills, c.Connections, c.SleptOver, c.Snapshots, c.Compared)
}

// Watchers are readers of one exchange. Their methods must be called from one goroutine.
type Watchers struct {
	o        Options
	over     context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	chains   []*chain
	depth    *depth
	orders   *orders
	accounts []*account

	updates, trades, events, fills, connections, sleptOver, snapshots, compared atomic.Int64

	mu    sync.Mutex // guards the fields below
	wrong []string
	last  map[string]error // error of each watcher's last connection
}

// Watch starts watchers. Stop ends them.
func Watch(ctx context.Context, o Options) *Watchers {
	w := &Watchers{o: o, last: map[string]error{}}
	w.over, w.end = context.WithCancel(ctx)
	for n, suffix := range []string{"", ".100ms"} {
		c := &chain{w: w, suffix: suffix, books: map[string]stream.Book{}, newest: map[string]uint64{}}
		w.chains = append(w.chains, c)
		w.stay("books"+suffix, uint64(n), c.connected)
	}
	w.depth = &depth{w: w, books: map[string]*diffed{}}
	w.stay("depth", 2, w.depth.connected)
	w.orders = &orders{w: w, books: map[string]map[client.OrderID]resting{}}
	w.stay("orders", 3, w.orders.connected)
	for n, id := range o.Accounts {
		a := newAccount(w, id)
		w.accounts = append(w.accounts, a)
		w.stay("account "+id, uint64(4+n), a.connected)
	}
	return w
}

// Stop ends the watchers and waits until they have ended.
func (w *Watchers) Stop() {
	w.end()
	w.running.Wait()
}

// Counts returns the counts so far.
func (w *Watchers) Counts() Counts {
	return Counts{w.updates.Load(), w.trades.Load(), w.events.Load(), w.fills.Load(), w.connections.Load(),
		w.sleptOver.Load(), w.snapshots.Load(), w.compared.Load()}
}

// Wrong returns the violations that watchers have seen, or nil.
func (w *Watchers) Wrong() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("books: %s", w.wrong[0])
}

// complain records a violation.
func (w *Watchers) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < wrongMax {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// errWrong is wrapped by errors about messages that no correct exchange sends.
var errWrong = errors.New("the exchange is inconsistent")

// stay keeps a watcher connected. connected reads one connection. Since servers are killed, its errors are
// expected, except those that wrap errWrong or stream.ErrProtocol.
func (w *Watchers) stay(name string, number uint64, connected func(ctx context.Context, addresses []string) error) {
	r := rand.New(rand.NewPCG(w.o.Seed, number))
	w.running.Go(func() {
		for w.over.Err() == nil {
			addresses := slices.Clone(w.o.HTTP())
			r.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
			ctx, cancel := w.over, context.CancelFunc(func() {})
			if w.o.Break > 0 {
				ctx, cancel = context.WithTimeout(w.over, time.Duration(r.Int64N(2*int64(w.o.Break))))
			}
			err := connected(ctx, addresses)
			cancel()
			w.mu.Lock()
			w.last[name] = err
			w.mu.Unlock()
			if errors.Is(err, errWrong) || errors.Is(err, stream.ErrProtocol) {
				w.complain("%s: %v", name, err)
			}
			select {
			case <-time.After(time.Duration(r.Int64N(int64(pauseMax)))):
			case <-w.over.Done():
			}
		}
	})
}

// options returns the options of every stream.
func (w *Watchers) options() stream.Options {
	return stream.Options{PauseMax: pauseMax, Silence: silenceMax}
}

// Check waits until all watchers have the state of the tables. The tables must be complete, and no client
// may be trading. The error describes a violation that a watcher has seen, or how a watcher's state
// differs.
func (w *Watchers) Check(ctx context.Context, db DB) error {
	t, err := readTruth(ctx, db, w.o.Accounts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	for {
		differs := w.compare(t)
		if err := w.Wrong(); err != nil {
			return err
		}
		if differs == nil {
			w.compared.Add(int64(4 * len(w.o.Symbols)))
			return nil
		}
		select {
		case <-time.After(agreePoll):
		case <-ctx.Done():
			w.mu.Lock()
			defer w.mu.Unlock()
			return fmt.Errorf("books: %w: %w; the last connections ended with: %v", differs, ctx.Err(), w.last)
		}
	}
}

// compare returns the first difference from t.
func (w *Watchers) compare(t *truth) error {
	for _, sym := range w.o.Symbols {
		want := t.books[sym]
		if want == nil {
			want = &stream.Book{}
		}
		for _, c := range w.chains {
			if err := c.compare(sym, want, t.trades[sym]); err != nil {
				return err
			}
		}
		if err := w.depth.compare(sym, want); err != nil {
			return err
		}
		if err := w.orders.compare(sym, t.orders[sym]); err != nil {
			return err
		}
	}
	for _, a := range w.accounts {
		if err := a.compare(t.accounts[a.id]); err != nil {
			return fmt.Errorf("account %s: %w", a.id, err)
		}
	}
	return nil
}

// sameBook compares two books' levels.
func sameBook(what string, got, want *stream.Book) error {
	for _, side := range []struct {
		name      string
		got, want []stream.Level
	}{{"bids", got.Bids, want.Bids}, {"asks", got.Asks, want.Asks}} {
		for i := range min(len(side.got), len(side.want)) {
			if side.got[i] != side.want[i] {
				return fmt.Errorf("%s at record %d: %s %d is %v, the tables have %v", what, got.Seq, side.name, i+1,
					side.got[i], side.want[i])
			}
		}
		if len(side.got) != len(side.want) {
			return fmt.Errorf("%s at record %d: %d %s, the tables have %d", what, got.Seq, len(side.got), side.name,
				len(side.want))
		}
	}
	return nil
}
