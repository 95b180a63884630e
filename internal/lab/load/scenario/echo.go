package scenario

import (
	"context"
	"time"

	"outcry/internal/lab/load"
)

// Echo sends to an echo server at r's addresses what the scenario has sent in the run that
// came to of: as long frames, over as many connections, in the same way. It does so for d;
// frames that have a connection each are as many as the scenario's. At a fixed rate the
// latency tells something, the throughput does not.
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
	if _, err := echo.Measure(ctx, r); err != nil { // a process that has served nothing yet is slower
		return nil, err
	}
	return echo.Measure(ctx, r)
}

// blank sends the same bytes again and again, and takes any reply.
type blank []byte

// Next implements load.Source.
func (b blank) Next() []byte { return b }

// Reply implements load.Source.
func (blank) Reply([]byte) error { return nil }
