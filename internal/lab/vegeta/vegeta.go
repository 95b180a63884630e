// Package vegeta runs the open model of package load with vegeta's attacker, for its pacing and its
// plots.
package vegeta

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	lib "github.com/tsenart/vegeta/v12/lib"

	"outcry/internal/lab/load"
)

// Hit is called for every frame, with the time at which it was due and the latency from that time.
type Hit func(*lib.Result)

// Open returns a function that does the same as load.Open, with vegeta's attacker. each may be nil. Only
// Result.Sent equals what vegeta itself reports.
func Open(each Hit) func(context.Context, load.Options, int, func(int) load.Source) (*load.Result, error) {
	return func(ctx context.Context, o load.Options, rate int, source func(int) load.Source) (*load.Result, error) {
		pool, err := load.NewPool(ctx, o, source)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		return attack(ctx, o, pool, pacer{load.NewSchedule(rate, o.Duration), rate}, each)
	}
}

func attack(ctx context.Context, o load.Options, pool *load.Pool, p pacer, each Hit) (*load.Result, error) {
	// vegeta's options for connections are not used: they require an *http.Transport and panic on other
	// types.
	attacker := lib.NewAttacker(lib.Client(&http.Client{Transport: transport{pool}}),
		lib.Workers(uint64(o.Connections)), lib.MaxWorkers(uint64(o.Connections)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	r := load.NewRecorder(o)
	defer r.Report()()
	lane := r.OpenLane()
	var broken error
	for hit := range attacker.Attack(target, p, 0, "outcry") {
		if hit.Error != "" && hit.Code == 0 {
			broken = fmt.Errorf("vegeta: frame %d: %s", hit.Seq, hit.Error)
			attacker.Stop()
			continue
		}
		due := r.Began().Add(p.Due(hit.Seq))
		if due.After(hit.Timestamp) {
			due = hit.Timestamp // the frame was sent a little early
		}
		var unexpected error
		if hit.Code != http.StatusOK {
			unexpected = errors.New(string(hit.Body))
		}
		lane.Add(due, hit.Timestamp, hit.End(), unexpected)
		if each != nil {
			hit.Timestamp, hit.Latency = due, hit.End().Sub(due)
			each(hit)
		}
	}
	lane.Flush()
	result, err := r.Result(pool), errors.Join(broken, ctx.Err())
	if err == nil {
		p.Judge(result)
	}
	return result, err
}

// pacer is a vegeta Pacer that follows a schedule.
type pacer struct {
	load.Schedule
	rate int
}

// Pace implements vegeta's Pacer.
func (p pacer) Pace(elapsed time.Duration, hits uint64) (wait time.Duration, stop bool) {
	if p.Over(hits, elapsed) {
		return 0, true
	}
	return max(p.Due(hits)-elapsed, 0), false
}

// Rate implements vegeta's Pacer.
func (p pacer) Rate(time.Duration) float64 { return float64(p.rate) }

// target is a vegeta Targeter that does nothing: the frame is chosen by the idle connection that sends
// it.
func target(to *lib.Target) error {
	to.Method, to.URL = http.MethodPost, "http://outcry/xml"
	return nil
}

// transport sends vegeta's requests as frames.
type transport struct{ *load.Pool }

// RoundTrip sends the next frame of an idle connection and returns the reply. If the source did not
// expect the reply, the response has status 422 and the reason as its body.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	unexpected, broken := t.Do()
	if broken != nil {
		return nil, broken
	}
	status, body := http.StatusOK, []byte(nil)
	if unexpected != nil {
		status, body = http.StatusUnprocessableEntity, []byte(unexpected.Error())
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: request}, nil
}
