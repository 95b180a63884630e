package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"outcry/cmd/internal/cli"
	measure "outcry/internal/lab/load"
)

// Kinds of a benchRow.
const (
	kindServer = "server"
	kindOutcry = "outcry"
	kindEcho   = "echo"
)

// replyUsual is how long replies of an echo server are where no other server has answered.
const replyUsual = 80

// benchRow is what a server came to. Rates and latencies are medians of its turns.
type benchRow struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Rate     float64 `json:"requests_per_second"`
	Least    float64 `json:"requests_per_second_least"`
	Most     float64 `json:"requests_per_second_most"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Share    float64 `json:"share_of_echo,omitempty"`
	Requests uint64  `json:"requests"`
	Refused  uint64  `json:"refused"` // requests whose reply is not one that was expected
	Refusal  string  `json:"refusal,omitempty"`
	Client   float64 `json:"client_cpu_us_per_request"` // what measuring itself costs
	Opened   uint64  `json:"opened"`
	Asked    uint64  `json:"asked"`
	Lost     uint64  `json:"lost"`
	Wrong    uint64  `json:"wrong"`
	Doubled  uint64  `json:"doubled"`
	Example  string  `json:"example,omitempty"`
	Error    string  `json:"error,omitempty"` // why its run ended, or its orders could not be asked for

	load       workload
	addr       string // of the echo server
	end        func() // of it
	summaries  []measure.Summary
	cpu        float64 // microseconds, of all turns
	replyBytes int     // of its replies, in the mean; 0 if there is none
}

// workload is what a server is measured with: orders, or an experiment.
type workload interface {
	// Prepare makes what the next Run needs.
	Prepare(ctx context.Context) error
	// Run sends and waits for the replies.
	Run(ctx context.Context) (*measure.Result, error)
	// Blank sends what Run sends to an echo server.
	Blank(ctx context.Context, addr string) (*measure.Result, error)
	// Check asks the server for what it was told.
	Check(ctx context.Context) (*measure.Checked, error)
}

// prepare makes what is traded. The error names the server.
func (r *benchRow) prepare(ctx context.Context) error {
	if r.Kind == kindEcho {
		return nil
	}
	if err := r.load.Prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}

// turn measures once. A server whose connection broke is left alone from then on. The error is ctx's, or
// says that there is no echo server.
func (r *benchRow) turn(ctx context.Context, p *plainBench) error {
	if r.Error != "" {
		return nil
	}
	run := r.load.Run
	if r.Kind == kindEcho {
		if err := r.startEcho(p.rows[0]); err != nil {
			return err
		}
		run = func(ctx context.Context) (*measure.Result, error) { return r.load.Blank(ctx, r.addr) }
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

// startEcho starts the echo server, whose replies are as long as those of the server that is measured.
func (r *benchRow) startEcho(as *benchRow) error {
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
	cmd.Env = cli.OwnEnviron(os.Environ())
	addr, end, err := measure.StartEcho(cmd)
	if err != nil {
		return err
	}
	r.addr, r.end = addr, end
	return nil
}

// conclude asks for the orders of the server, and makes figures of its turns. echo is the last row.
func (r *benchRow) conclude(ctx context.Context, echo *benchRow) {
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
	rate := measure.SpreadOf(r.summaries, func(s measure.Summary) float64 { return s.Rate })
	r.Rate, r.Least, r.Most = rate.Median, rate.Min, rate.Max
	r.P50 = measure.SpreadOf(r.summaries, func(s measure.Summary) float64 { return s.P50 }).Median
	r.P99 = measure.SpreadOf(r.summaries, func(s measure.Summary) float64 { return s.P99 }).Median
	r.Client = r.cpu / float64(max(r.Requests, 1))
	if echo.Kind == kindEcho && len(echo.summaries) > 0 {
		r.Share = r.Rate / measure.SpreadOf(echo.summaries, func(s measure.Summary) float64 { return s.Rate }).Median
	}
}

// bad reports whether an order was not treated as it has to be.
func (r *benchRow) bad() bool { return len(r.complaints()) > 0 }

// complaints says what was wrong with a server.
func (r *benchRow) complaints() (all []string) {
	if r.Refused > 0 {
		all = append(all, fmt.Sprintf("%d of %d requests were not done, for example: %s", r.Refused, r.Requests, r.Refusal))
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
