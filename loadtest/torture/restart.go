package torture

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/wire"
)

// Restart is one restart that clients were connected over. All are in seconds.
type Restart struct {
	Down  float64 `json:"down_seconds"`  // longest time within which no client had an answer
	Stop  float64 `json:"stop_seconds"`  // from the signal to the end of the process
	Start float64 `json:"start_seconds"` // from there to a server that takes orders
}

// silence is the longest time between two answers, of whatever clients.
type silence struct {
	last    time.Time
	longest time.Duration
}

// answered notes an answer.
func (s *silence) answered(now time.Time) {
	if !s.last.IsZero() {
		s.longest = max(s.longest, now.Sub(s.last))
	}
	s.last = now
}

// listen begins to look for the longest silence anew.
func (h *history) listen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence.longest = 0
}

// longestSilence returns the longest silence since listen, one that lasts included.
func (h *history) longestSilence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.silence.longest, time.Since(h.silence.last))
}

// restart stops the server in order and starts it again at the same address, while
// clients trade.
func (r *runner) restart(ctx context.Context) error {
	r.end.comesBack.Store(true)
	r.history.listen()
	begun := time.Now()
	if err := r.stopServer(ctx); err != nil {
		return err
	}
	stopped := time.Now()
	up, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if err := r.launch(r.plain, r.server.XML); err != nil {
		return err
	}
	if err := r.server.WaitReady(up); err != nil {
		return fmt.Errorf("the exchange does not come back: %w", err)
	}
	ready := time.Now()
	if err := r.letTrade(ctx); err != nil { // which is when the silence ends
		return err
	}
	r.end = new(ending)
	r.report.started(ready.Sub(stopped))
	r.report.Restarts = append(r.report.Restarts, Restart{Down: r.history.longestSilence().Seconds(),
		Stop: stopped.Sub(begun).Seconds(), Start: ready.Sub(stopped).Seconds()})
	return nil
}

const (
	restingAtOnce = 500 // orders in a frame
	restingTicks  = 10_000
)

// fillBooks places orders that rest: sells, far above where is traded.
func (r *runner) fillBooks(ctx context.Context) error {
	for placed := 0; placed < r.Resting; {
		f, account := new(frame), r.market.accounts[r.r.IntN(len(r.market.accounts))]
		t := wire.NewTransactions(account)
		for range min(restingAtOnce, r.Resting-placed) {
			sym := r.market.symbols[r.r.IntN(len(r.market.symbols))]
			o := r.history.order(account, sym, -1, 2*priceMiddle+int64(r.r.IntN(restingTicks))*priceTick)
			f.commands = append(f.commands, command{kind: place, order: o})
			t.Order(o.sym, decimal(o.amount), decimal(o.limit))
			placed++
		}
		answers, err := ask(ctx, r.target(), t.Append(nil))
		if err != nil {
			return fmt.Errorf("torture: fill the books: %w", err)
		}
		r.history.note(f, answers)
	}
	if wrong := r.history.complaints(); len(wrong) > 0 {
		return fmt.Errorf("torture: fill the books: %s", wrong[0])
	}
	return nil
}
