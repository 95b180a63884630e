package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// sendingMax is how long after its duration an open run may still send requests that were due within it.
const sendingMax = time.Minute

// Schedule is when the frames of an open run are due: at even intervals from its start. It ends after a number of
// frames rather than at a time, so frames that were due during a stall are sent once the stall is over, for up to
// another minute.
type Schedule struct {
	rate  int
	most  uint64
	until time.Duration
}

// NewSchedule returns a schedule of rate frames a second for d.
func NewSchedule(rate int, d time.Duration) Schedule {
	return Schedule{rate: rate, most: uint64(d.Seconds() * float64(rate)), until: d + sendingMax}
}

// Due returns when a frame, counted from 0, is due, relative to the start.
func (s Schedule) Due(frame uint64) time.Duration {
	return time.Duration(float64(frame) / float64(s.rate) * float64(time.Second))
}

// Over reports whether a run that has sent the given number of frames must send no more after elapsed.
func (s Schedule) Over(frames uint64, elapsed time.Duration) bool {
	return frames >= s.most || elapsed > s.until
}

// Judge adds to r an error for each frame that was due and not sent.
func (s Schedule) Judge(r *Result) {
	if missing := s.most - r.Requests; missing > 0 {
		r.Errors += missing
		r.Examples = append(r.Examples,
			fmt.Sprintf("%d frames were due but not sent: the server does not reach %d per second", missing, s.rate))
	}
}

// Pool holds the connections of an open run, each with its own source.
type Pool struct {
	idle              chan *pooled
	bytesOut, bytesIn atomic.Uint64
}

// pooled is a connection. It belongs to the goroutine that took it from the pool.
type pooled struct {
	link
	source Source
}

// NewPool makes o.Connections connections. The error names the address that was not reached.
func NewPool(ctx context.Context, o Options, source func(connection int) Source) (*Pool, error) {
	conns, err := o.dialAll(ctx)
	if err != nil {
		return nil, err
	}
	return newPool(conns, source), nil
}

func newPool(conns []link, source func(connection int) Source) *Pool {
	p := &Pool{idle: make(chan *pooled, len(conns))}
	for n, c := range conns {
		p.idle <- &pooled{c, source(n)}
	}
	return p
}

// Close closes the idle connections.
func (p *Pool) Close() {
	for {
		select {
		case c := <-p.idle:
			c.Close()
		default:
			return
		}
	}
}

// errDone means that a source has no more frames.
var errDone = errors.New("a connection has no more frames to send")

// Do waits for an idle connection, sends its next frame, and reads the reply. unexpected is the source's
// error for that reply; broken means that the connection broke.
func (p *Pool) Do() (unexpected, broken error) {
	c := <-p.idle
	defer func() { p.idle <- c }()
	xml := c.source.Next()
	if xml == nil {
		return nil, errDone
	}
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	p.bytesOut.Add(uint64(len(xml)))
	c.SendFrame(xml)
	if err := c.Flush(); err != nil {
		return nil, err
	}
	reply, err := c.NextReply()
	if err != nil {
		return nil, err
	}
	p.bytesIn.Add(uint64(len(reply)))
	return c.source.Reply(reply), nil
}

// Open runs the open model: rate frames a second for o.Duration, over o.Connections connections, each
// with its own source. While all connections are busy a frame waits, and the wait counts in its latency:
// Result.Latency counts from the time the frame was due, Result.Sent from the time it was sent.
// Result.Sent hides a stall, since nothing is sent during it. Every frame that was due is sent, after
// o.Duration if necessary; frames not sent within another minute count as errors. It returns an error if
// a connection could not be made or broke.
func Open(ctx context.Context, o Options, rate int, source func(connection int) Source) (*Result, error) {
	conns, err := o.dialAll(ctx)
	if err != nil {
		return nil, err
	}
	schedule := NewSchedule(rate, o.Duration)
	if bare := bareConns(conns); bare != nil {
		result, err := NewRecorder(o).lean(ctx, bare, source, &schedule)
		if err == nil {
			schedule.Judge(result)
		}
		return result, err
	}
	pool := newPool(conns, source)
	defer pool.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := NewRecorder(o)
	defer r.Report()()
	var next atomic.Uint64
	var running sync.WaitGroup
	for range o.Connections {
		l := r.OpenLane()
		running.Go(func() {
			defer l.Flush()
			for {
				n := next.Add(1) - 1
				if schedule.Over(n, time.Since(r.began)) {
					return
				}
				due := r.began.Add(schedule.Due(n))
				if !sleep(ctx, time.Until(due)) {
					return
				}
				sent := time.Now()
				unexpected, broken := pool.Do()
				if broken != nil {
					cancel(fmt.Errorf("load: frame %d: %w", n, broken))
					return
				}
				l.Add(due, sent, time.Now(), unexpected)
			}
		})
	}
	running.Wait()
	result := r.Result(pool)
	err = context.Cause(ctx)
	if err == nil {
		schedule.Judge(result)
	}
	return result, err
}

// sleep sleeps for d. It returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
