package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// sendingMax is how much longer than its duration an open run may take to send what
// was due in it.
const sendingMax = time.Minute

// Schedule says when the frames of an open run are due: evenly, from its begin on. It
// ends with a number of frames instead of a time: what is due in a stall is sent behind
// it, for a minute more at the most.
type Schedule struct {
	rate  int
	most  uint64
	until time.Duration
}

// NewSchedule returns that of rate frames a second for d.
func NewSchedule(rate int, d time.Duration) Schedule {
	return Schedule{rate: rate, most: uint64(d.Seconds() * float64(rate)), until: d + sendingMax}
}

// Due returns when a frame, counted from 0, is to be sent, from the begin on.
func (s Schedule) Due(frame uint64) time.Duration {
	return time.Duration(float64(frame) / float64(s.rate) * float64(time.Second))
}

// Over reports whether no frame is to be sent any more once there were so many, and so
// much time has passed.
func (s Schedule) Over(frames uint64, elapsed time.Duration) bool {
	return frames >= s.most || elapsed > s.until
}

// Judge adds the frames to a result that were due and not sent.
func (s Schedule) Judge(r *Result) {
	if missing := s.most - r.Requests; missing > 0 {
		r.Errors += missing
		r.Examples = append(r.Examples,
			fmt.Sprintf("%d frames were due and not sent: %d a second is more than is done", missing, s.rate))
	}
}

// Pool holds the connections of an open run, each with a source of its own.
type Pool struct {
	idle              chan *pooled
	bytesOut, bytesIn atomic.Uint64
}

// pooled is a connection, used by the one who has taken it from the idle ones.
type pooled struct {
	link
	source Source
}

// NewPool connects o.Connections times. The error says which address was not reached.
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

// Close closes the connections that are idle.
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

// errDone says that a source has no more frames.
var errDone = errors.New("a connection has no more frames to send")

// Do waits for a connection that is free, sends its next frame, and takes the reply.
// unexpected is what its source says of that; broken says that the connection broke.
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

// Open runs the open model: rate frames a second for o.Duration, over o.Connections
// connections, each with a source of its own. While all of these are busy a frame
// waits, and that wait is part of its latency: Result.Latency counts from the moment at
// which the frame was due, Result.Sent from the moment at which it was sent. A stall
// hides in the second one, since nothing is sent meanwhile. Every frame that was due is
// sent, if need be after o.Duration; those that are not for another minute count as
// errors. The error says why a connection could not be made or broke.
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

// sleep reports whether ctx has lasted so long.
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
