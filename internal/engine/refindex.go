package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
)

const (
	// sealedMax bounds the generations that are sealed and not completely in the database.
	// While the database is unavailable, the last generation receives all further refs.
	sealedMax = 2

	// generationsKept is the number of generations that share RefsMax: the last one, the sealed ones, and one that
	// is in the database already. Until the next sweep, memory may have further generations that are completely in
	// the database.
	generationsKept = 2 + sealedMax

	// filterRetry is the pause after an error before the database is read into the filter again.
	filterRetry = time.Second
)

// refIndex answers what each ref was used for. It belongs to an Engine, or to a Standby until an engine takes it over.
type refIndex struct {
	table    *exchange.Refs // guarded by its owner's mutex
	filter   *refFilter
	complete atomic.Bool // the filter has all refs that the database had when the index was made

	// filtered is the number of the first generation that is not completely in the filter.
	// Only sweep changes it.
	filtered atomic.Uint64

	cancel context.CancelFunc // stops build; nil without a History
	built  chan struct{}      // closed once build has ended
}

// newRefIndex returns the index of the refs in memory and in the history. A goroutine reads the refs
// of the history into the filter; end stops it. history may be nil.
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

// end stops the goroutine, if there is one, and waits for it.
func (x *refIndex) end() {
	if x.cancel != nil {
		x.cancel()
		<-x.built
	}
}

// build reads all refs of the database into the filter, and retries until that succeeds.
// Until then, every ref must be looked up in the database.
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

// sweep begins a new generation if the last one has reached its share of refsMax. It adds the generations that are
// completely in the database to the filter. It drops the generations that were in the filter before this sweep, except
// the newest of them: sessions that have asked the filter before this sweep need the others. last returns the seq of
// the last record, or of a later one, and is called under mu, which guards the table.
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
