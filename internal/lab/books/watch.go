// Package books proves that readers of an exchange know what it knows: that the published ways of
// keeping a local book (by U and u of the Binance-shaped door, by the chain and checksum of ours) give
// exactly its book, and that private events are numbered without a gap and no fill is lost or doubled,
// over connections that break and an exchange that is killed or fails over.
//
// Watchers read all the time. While nobody trades, Check holds what they know against the tables, which
// come from the journal by another way than what they read.
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

// Options say what is watched.
type Options struct {
	HTTP     func() []string // addresses of the nodes, at any time
	Symbols  []string
	Accounts []string
	Seed     uint64
	// Break is the mean time after which a watcher gives its connection up and makes another; 0: never.
	Break time.Duration
}

const (
	// pauseMax bounds the pause before a watcher connects again, and within a connection's client.
	pauseMax = 200 * time.Millisecond
	// silenceMax is when a connection without a message or ping is taken for lost: the exchange pings
	// every 20 seconds.
	silenceMax = 30 * time.Second
	// agreeTimeout bounds how long watchers may take, at rest, to know everything.
	agreeTimeout = 60 * time.Second
	// agreePoll is how often they are asked.
	agreePoll = 20 * time.Millisecond
	// wrongMax is how many complaints are kept.
	wrongMax = 20
)

// Counts are what watchers have seen.
type Counts struct {
	Updates     int64 `json:"updates_of_books"` // in all ways
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

// Watchers are readers of one exchange. Their methods are for one goroutine.
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

	mu    sync.Mutex // guards what follows
	wrong []string
	last  map[string]error // how the last connection of each watcher ended
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

// Stop ends the watchers and waits for their ends.
func (w *Watchers) Stop() {
	w.end()
	w.running.Wait()
}

// Counts returns what was seen so far.
func (w *Watchers) Counts() Counts {
	return Counts{w.updates.Load(), w.trades.Load(), w.events.Load(), w.fills.Load(), w.connections.Load(),
		w.sleptOver.Load(), w.snapshots.Load(), w.compared.Load()}
}

// Wrong returns what watchers have seen that may not be, nil if nothing.
func (w *Watchers) Wrong() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("books: %s", w.wrong[0])
}

// complain notes what may not be.
func (w *Watchers) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < wrongMax {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// errWrong is wrapped in what the exchange may never say.
var errWrong = errors.New("the exchange is wrong")

// stay has a watcher connect again and again. What connected returns is the end of one connection, as
// servers are killed; unless it wraps errWrong or stream.ErrProtocol.
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

// options are those of every stream.
func (w *Watchers) options() stream.Options {
	return stream.Options{PauseMax: pauseMax, Silence: silenceMax}
}

// Check waits, while nobody trades, until all watchers know what the tables have, which have to be complete.
// The error says what a watcher saw that may not be, or how it differs.
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
			return fmt.Errorf("books: %w: %w; the last connections ended so: %v", differs, ctx.Err(), w.last)
		}
	}
}

// compare returns the first difference.
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
