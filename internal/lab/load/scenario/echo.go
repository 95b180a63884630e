package scenario

import (
	"context"
	"time"

	"outcry/internal/lab/load"
)

// Echo repeats a measured run, whose result is of, against an echo server at r's addresses: equally long frames,
// over as many connections, in the same model, for d. If each request has its own connection, the number of
// requests is the scenario's. At a fixed rate only the latency is meaningful, not the throughput.
func (s Scenario) Echo(ctx context.Context, r *Run, of *load.Result, d time.Duration) (*load.Result, error) {
	frames := uint64(s.Frames())
	echo := Scenario{connect: s.connect, frames: s.frames, source: func(r *Run, _ int) load.Source {
		b := blank(make([]byte, max(of.BytesOut/max(frames*of.Requests, 1), 1)))
		if r.Params.Requests == 0 {
			return b
		}
		return &limited{b, int(frames) * r.Params.Requests}
	}}
	if !s.connect {
		r.Params.Requests, r.Params.Duration = 0, d
		return echo.Measure(ctx, r)
	}
	r.Params.Duration = 0
	if _, err := echo.Measure(ctx, r); err != nil { // warm up: a new process is slower
		return nil, err
	}
	return echo.Measure(ctx, r)
}

// blank sends the same bytes repeatedly and accepts any reply.
type blank []byte

// Next implements load.Source.
func (b blank) Next() []byte { return b }

// Reply implements load.Source.
func (blank) Reply([]byte) error { return nil }
