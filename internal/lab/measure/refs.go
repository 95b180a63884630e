package measure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"outcry/internal/lab/load"
)

// Result is the JSON output of a run with refs. Times are in milliseconds.
type Result struct {
	load.Summary
	Refused    uint64  `json:"rejected"`
	Unanswered uint64  `json:"unanswered"`
	GapMS      float64 `json:"longest_gap_ms"`
	GapAtMS    float64 `json:"longest_gap_at_ms"` // since the start of the run
	Failovers  uint64  `json:"failovers"`
	Reconnects uint64  `json:"reconnects"`
	SentAgain  uint64  `json:"sent_again"`
	Asked      uint64  `json:"asked"`
	Done       uint64  `json:"unanswered_done"`
	Lost       uint64  `json:"lost"`
	Doubled    uint64  `json:"doubled"`
	Others     uint64  `json:"numbers_of_others"`
}

// runRefs measures an exchange with orders that have refs.
func (o *Options) runRefs(ctx context.Context) error {
	trading := o.Trading
	trading.Addr, trading.Client, trading.Run = strings.Join(o.Addrs, ","), o.Client, strings.ToLower(rand.Text()[:10])
	trading.Client.Depth = o.Depth
	r, err := load.Trade(ctx, trading)
	if r == nil {
		return err
	}
	if o.JSON {
		printJSON(o.Out, Result{r.Summary(), r.Refused, r.Unanswered, load.Millis(r.Longest.Length),
			load.Millis(r.Longest.From), r.Failovers, r.Reconnects, r.SentAgain, r.Asked, r.Done, r.Lost,
			r.Doubled, r.Others})
	} else {
		printResult(o.Out, r)
	}
	switch {
	case err != nil:
		return err
	case r.Lost+r.Doubled+r.Unanswered > 0:
		return ErrWrong
	}
	return nil
}

func printJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}

// printResult prints the result as text.
func printResult(stdout io.Writer, r *load.Traded) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	ms := func(d time.Duration) string { return fmt.Sprintf("%.3g ms", load.Millis(d)) }
	fmt.Fprintf(w, "orders\t%d answered in %.1f s, %.0f per second; %d rejected, %d without a reply\n", r.Requests,
		r.Elapsed.Seconds(), r.Rate(), r.Refused, r.Unanswered)
	if r.Unanswered > 0 {
		fmt.Fprintf(w, "\tfor example: %s\n", r.Why)
	}
	if r.Refused > 0 && len(r.Examples) > 0 {
		fmt.Fprintf(w, "\tfor example: %s\n", r.Examples[0])
	}
	fmt.Fprintf(w, "latency\tp50 %s, p99 %s, p99.9 %s, longest %s\n", ms(r.Quantile(0.5)), ms(r.Quantile(0.99)),
		ms(r.Quantile(0.999)), ms(r.Quantile(1)))
	fmt.Fprintf(w, "longest gap\t%s without a reply, %.1f s after the start\n", ms(r.Longest.Length),
		r.Longest.From.Seconds())
	fmt.Fprintf(w, "failovers\t%d; %d reconnects, %d orders sent again\n", r.Failovers, r.Reconnects,
		r.SentAgain)
	fmt.Fprintf(w, "asked\t%d orders: %d lost, %d doubled; of those without a reply %d were executed\n", r.Asked, r.Lost,
		r.Doubled, r.Done)
	if r.Example != "" {
		fmt.Fprintf(w, "\tfor example: %s\n", r.Example)
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "\t%d numbers between these orders belong to other orders: others traded, or orders ran twice\n",
			r.Others)
	}
}
