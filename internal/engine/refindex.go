package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
)

const (
	// sealedMax bounds the generations that are sealed and not in the database yet.
	// While it is away, the last one takes all further refs.
	sealedMax = 2

	// generationsKept is how many generations RefsMax stands for: the last one, those on
	// their way into the database, and one that is there already. Until the next sweep
	// there are as many more as the database has caught up with.
	generationsKept = 2 + sealedMax

	// filterRetry is how long the filter waits for the database to be read again.
	filterRetry = time.Second
)

// refIndex finds what refs were used for. An engine has one, or a Standby, whose engine
// takes it over.
type refIndex struct {
	table    *exchange.Refs // guarded by its owner's mutex
	filter   *refFilter
	complete atomic.Bool // the filter has all refs that the database had at the start

	// filtered is the number of the first generation that is not wholly in the filter.
	// Only sweep changes it.
	filtered atomic.Uint64

	cancel context.CancelFunc // of build; nil without a History
	built  chan struct{}      // closed once build has ended
}

// newRefIndex returns the index of refs that are in memory and of those that the history
// has, which a goroutine reads into the filter, until end. A nil history has none.
func newRefIndex(table *exchange.Refs, history History) *refIndex {
	x := &refIndex{table: table, filter: newRefFilter()}
	if history != nil {
		var ctx context.Context
		ctx, x.cancel = context.WithCancel(context.Background())
		x.built = make(chan struct{})
		go func() {
			defer close(x.built)
			x.build(ctx, history)
		}()
	}
	return x
}

// end ends the goroutine, if there is one, and waits for it.
func (x *refIndex) end() {
	if x.cancel != nil {
		x.cancel()
		<-x.built
	}
}

// build reads the refs that the database has into the filter, however often it takes.
// Until it is done, every ref is perhaps there.
func (x *refIndex) build(ctx context.Context, history History) {
	for {
		var err error
		x.filter.add(func(yield func(exchange.RefKey) bool) {
			err = history.EachRef(ctx, yield)
		})
		if err == nil {
			x.complete.Store(true)
			return
		}
		select {
		case <-time.After(filterRetry):
		case <-ctx.Done():
			return
		}
	}
}

// sweep begins a new generation where the last one has its part of refsMax, brings those
// into the filter that the database has wholly, and drops those that were there before, but
// for the newest: sessions that looked into the filter meanwhile need the others, also where
// a batch of the database had several. last returns the seq of the last record, or of a
// later one, and is called under mu, which guards the table.
func (x *refIndex) sweep(mu sync.Locker, refsMax int, last, applied func() uint64) {
	mu.Lock()
	if x.table.Added() >= refsMax/generationsKept && x.table.Last()-x.filtered.Load() < sealedMax {
		x.table.Seal(last())
	}
	newest := x.table.Last()
	mu.Unlock()
	before := x.filtered.Load()
	for number := before; number < newest; number++ {
		mu.Lock()
		keys, seq := x.table.Sealed(number)
		mu.Unlock()
		if seq > applied() {
			break
		}
		x.filter.add(keys)
		x.filtered.Store(number + 1)
	}
	mu.Lock()
	defer mu.Unlock()
	for x.table.First()+1 < before {
		x.table.Drop()
	}
}
