package torture

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/check"
)

// Restart is one restart that clients were connected over. All are in seconds.
type Restart struct {
	Down  float64 `json:"down_seconds"`  // longest time within which no client had an answer
	Stop  float64 `json:"stop_seconds"`  // from the signal to the end of the process
	Start float64 `json:"start_seconds"` // from there to a server that takes orders
}

// restart stops the server in order and starts it again at the same address, while
// clients trade.
func (r *runner) restart(ctx context.Context) error {
	r.End.ComesBack.Store(true)
	r.Listen()
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
	r.At = check.Target{Addr: r.server.XML, Token: r.token}
	if err := r.letTrade(ctx); err != nil { // which is when the silence ends
		return err
	}
	r.End = new(check.Ending)
	r.report.started(ready.Sub(stopped))
	r.report.Restarts = append(r.report.Restarts, Restart{Down: r.LongestSilence().Seconds(),
		Stop: stopped.Sub(begun).Seconds(), Start: ready.Sub(stopped).Seconds()})
	return nil
}
