package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"outcry/internal/lab/load"
	"outcry/internal/process/child"
)

// Values of Row.Kind.
const (
	kindServer = "server"
	kindOutcry = "outcry"
	kindEcho   = "echo"
)

// replyUsual is the length of an echo server's replies if no other server has answered.
const replyUsual = 80

// Row is the result of one server of a Comparison. Rates and latencies are medians over its turns.
type Row struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Rate     float64 `json:"requests_per_second"`
	Least    float64 `json:"requests_per_second_least"`
	Most     float64 `json:"requests_per_second_most"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Share    float64 `json:"share_of_echo,omitempty"`
	Requests uint64  `json:"requests"`
	Refused  uint64  `json:"refused"` // requests with an unexpected reply
	Refusal  string  `json:"refusal,omitempty"`
	Client   float64 `json:"client_cpu_us_per_request"` // cost of the measuring client
	Opened   uint64  `json:"opened"`
	Asked    uint64  `json:"asked"`
	Lost     uint64  `json:"lost"`
	Wrong    uint64  `json:"wrong"`
	Doubled  uint64  `json:"doubled"`
	Example  string  `json:"example,omitempty"`
	Error    string  `json:"error,omitempty"` // why its run ended, or why its orders could not be queried

	load       workload
	addr       string // address of the echo server
	end        func() // stops the echo server
	summaries  []load.Summary
	cpu        float64 // microseconds of CPU time in all turns
	replyBytes int     // mean length of its replies; 0 before the first one
}

// workload is what a run sends to each server: orders, or an experiment.
type workload interface {
	// Prepare creates what the next Run needs.
	Prepare(ctx context.Context) error
	// Run sends the requests, waits for the replies, and returns the measurements.
	Run(ctx context.Context) (*load.Result, error)
	// Blank sends the requests of Run to an echo server at addr.
	Blank(ctx context.Context, addr string) (*load.Result, error)
	// Check queries the orders that the server accepted, and compares them with its replies.
	Check(ctx context.Context) (*load.Checked, error)
}

// prepare prepares the server's workload. The error names the server.
func (r *Row) prepare(ctx context.Context) error {
	if r.Kind == kindEcho {
		return nil
	}
	if err := r.load.Prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}

// turn measures the server once. If its connection breaks, r.Error is set, and later turns skip the server.
// The error is ctx's, or means that the echo server could not be started.
func (r *Row) turn(ctx context.Context, p *comparison) error {
	if r.Error != "" {
		return nil
	}
	run := r.load.Run
	if r.Kind == kindEcho {
		if err := r.startEcho(p.rows[0]); err != nil {
			return err
		}
		run = func(ctx context.Context) (*load.Result, error) { return r.load.Blank(ctx, r.addr) }
	}
	if e, ok := r.load.(*experiment); ok && r.Kind != kindEcho {
		if err := e.begin(ctx); err != nil {
			r.Error = err.Error()
			return ctx.Err()
		}
	}
	used := cpuTime()
	result, err := run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.Error = err.Error()
		return nil
	}
	s := result.Summary()
	r.cpu += float64((cpuTime() - used).Microseconds())
	r.summaries = append(r.summaries, s)
	r.Requests += s.Requests
	r.Refused += s.Errors
	if s.Errors > 0 {
		r.Refusal = s.Example
	}
	if r.replyBytes == 0 && s.Requests > 0 {
		r.replyBytes = int(result.BytesIn / s.Requests)
		if e, ok := r.load.(*experiment); ok {
			r.replyBytes /= e.scenario.Frames()
		}
	}
	return nil
}

// startEcho starts the echo server unless it is running. Its replies are as long as those of the measured server,
// whose row is as.
func (r *Row) startEcho(as *Row) error {
	if r.end != nil {
		return nil
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	bytes := replyUsual
	if as.replyBytes > 0 {
		bytes = as.replyBytes
	}
	cmd := exec.Command(own, "bench", "echo", "--reply="+strconv.Itoa(bytes))
	cmd.Env = child.Environ(os.Environ())
	addr, end, err := load.StartEcho(cmd)
	if err != nil {
		return err
	}
	r.addr, r.end = addr, end
	return nil
}

// conclude checks the server's orders, and computes the figures from its turns. echo is the echo server's row.
func (r *Row) conclude(ctx context.Context, echo *Row) {
	if r.Kind != kindEcho {
		checked, err := r.load.Check(ctx)
		r.Opened, r.Asked, r.Lost, r.Wrong = checked.Opened, checked.Asked, checked.Lost, checked.Wrong
		r.Doubled, r.Example = checked.Doubled, checked.Example
		if err != nil && r.Error == "" {
			r.Error = err.Error()
		}
	}
	if len(r.summaries) == 0 {
		return
	}
	rate := load.SpreadOf(r.summaries, func(s load.Summary) float64 { return s.Rate })
	r.Rate, r.Least, r.Most = rate.Median, rate.Min, rate.Max
	r.P50 = load.SpreadOf(r.summaries, func(s load.Summary) float64 { return s.P50 }).Median
	r.P99 = load.SpreadOf(r.summaries, func(s load.Summary) float64 { return s.P99 }).Median
	r.Client = r.cpu / float64(max(r.Requests, 1))
	if echo.Kind == kindEcho && len(echo.summaries) > 0 {
		r.Share = r.Rate / load.SpreadOf(echo.summaries, func(s load.Summary) float64 { return s.Rate }).Median
	}
}

// bad reports whether the server handled an order wrongly.
func (r *Row) bad() bool { return len(r.complaints()) > 0 }

// complaints lists the problems of a server.
func (r *Row) complaints() (all []string) {
	if r.Refused > 0 {
		all = append(all, fmt.Sprintf("%d of %d requests were not executed, for example: %s", r.Refused, r.Requests,
			r.Refusal))
	}
	if r.Lost+r.Wrong+r.Doubled > 0 {
		all = append(all, fmt.Sprintf("%d orders lost, %d wrong, %d numbers given twice, for example: %s", r.Lost, r.Wrong,
			r.Doubled, r.Example))
	}
	if r.Error != "" {
		all = append(all, r.Error)
	}
	return all
}
