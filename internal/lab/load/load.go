// Package load sends frames to one server or several over TCP and measures how they
// answer. Package scenario below it has what is sent.
//
// There are three models. Closed: C connections, each of which sends its next
// frame when it has the reply to the one before. Pipelined: the same with D
// frames under way on each connection. Open: frames are due at a fixed rate,
// whatever the server does, and a frame's latency counts from the moment at which
// it was due: this is what users feel.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"outcry/clients/go/client"
	"outcry/internal/lab/dialect"
)

// Source makes the frames of one connection and takes the replies to them, in
// their order. It is used by one goroutine.
type Source interface {
	// Next returns the XML of the next frame, nil if there is none any more. It
	// is valid until the next call.
	Next() []byte
	// Reply takes the XML of a reply, which is valid until it returns. The error
	// says that the reply is not one that was expected; it is counted and shown, and
	// the run goes on.
	Reply(xml []byte) error
}

// Options say how to send.
type Options struct {
	Addrs       []string      // of one exchange or of several; connection n goes to number n mod their count
	Connections int           // at once
	Depth       int           // frames under way on each connection; 1 is the closed model
	Duration    time.Duration // how long frames are sent; 0 until the sources have none
	Frames      int           // that a request has, one after another; 0 is 1. Not in the open model
	Pause       time.Duration // between a request and the next one of its connection; only in the closed model
	Progress    func(Progress)

	Habits        dialect.Habits // of servers that do not frame as the protocol has it
	ReplyBytesMax int            // a larger reply ends the run; 0 is 256 MiB
	Client        client.Options // TLS and the token of a connection; only without Habits

	// Greet, if it is not nil, is for servers of another protocol: it says on a new connection what comes
	// before the first request, and returns how those stand on it. Without Habits and Client.
	Greet func(conn net.Conn) (Codec, error)
}

// addr returns where connection n goes.
func (o Options) addr(n int) string { return o.Addrs[n%len(o.Addrs)] }

// Progress is what a run is like at the moment; figures are of the last second.
type Progress struct {
	Elapsed, Left time.Duration // Left is 0 if it is not known
	Requests      uint64        // so far
	Rate          float64       // answered a second
	Errors        uint64        // so far
	P50, P99      time.Duration
}

// String returns it in a line, which is as long each time.
func (p Progress) String() string {
	return fmt.Sprintf("%6.0f s  %9d answered  %8.0f/s  p50 %8s  p99 %8s  %d unexpected  %4.0f s left",
		p.Elapsed.Seconds(), p.Requests, p.Rate, p.P50.Round(10*time.Microsecond), p.P99.Round(10*time.Microsecond),
		p.Errors, p.Left.Seconds())
}

const (
	dialTimeout = 30 * time.Second

	// replyTimeout is how long a server may owe a reply. A run with a reply that
	// took longer has failed: it is not a slow one.
	replyTimeout = 60 * time.Second

	replyBytesMax = 256 << 20
)

// Closed runs the closed or pipelined model, a source for each connection. The
// error says why a connection could not be made or broke. All connections are made
// before the first frame is sent.
func Closed(ctx context.Context, o Options, source func(connection int) Source) (*Result, error) {
	conns, err := o.dialAll(ctx)
	if err != nil {
		return nil, err
	}
	r := NewRecorder(o)
	if bare := bareConns(conns); bare != nil && o.Frames <= 1 && o.Pause == 0 {
		return r.lean(ctx, bare, source, nil)
	}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.Close() // ends what waits
		}
	})()
	defer r.Report()()
	var running sync.WaitGroup
	for n, c := range conns {
		running.Go(func() {
			w := &worker{conn: c, source: source(n), lane: r.Lane(), depth: max(o.Depth, 1), frames: max(o.Frames, 1),
				pause: o.Pause}
			if o.Duration > 0 {
				w.until = r.began.Add(o.Duration)
			}
			if err := w.run(); err != nil {
				cancel(fmt.Errorf("load: connection %d: %w", n+1, err))
			}
			w.lane.Flush()
		})
	}
	running.Wait()
	return r.Result(nil), context.Cause(ctx)
}

// worker keeps depth frames under way on one connection.
type worker struct {
	conn     link
	source   Source
	lane     *Lane
	depth    int
	until    time.Time // zero: until the source has no more
	extended time.Time // when the deadline was set

	sent  []time.Time // of the frames under way from first on, oldest first
	first int

	frames int // of a request
	pause  time.Duration
	parts  int       // frames of the request that is answered in part
	begun  time.Time // that request
	wrong  error     // with it
}

// underWay returns how many frames have no reply.
func (w *worker) underWay() int { return len(w.sent) - w.first }

// run sends and reads until the time is up, or the source is done, and every
// frame has its reply. Frames that may be sent together are: one write a batch.
func (w *worker) run() error {
	now := time.Now()
	w.extend(now)
	done := w.send(w.depth, now)
	for w.underWay() > 0 {
		w.extend(now)
		if err := w.read(); err != nil {
			return err
		}
		now = time.Now()
		if !done && (w.until.IsZero() || now.Before(w.until)) {
			if w.pause > 0 && w.parts == 0 {
				time.Sleep(w.pause)
				now = time.Now()
			}
			done = w.send(w.depth-w.underWay(), now)
		}
	}
	return w.lane.writeErr
}

// extendedEvery is after how much time a connection gets a new deadline: setting one for each frame
// would cost as much as the rest of what a frame costs here.
const extendedEvery = time.Second

// extend gives what waits on the connection replyTimeout from now on, a second less at the most.
func (w *worker) extend(now time.Time) {
	if now.Sub(w.extended) >= extendedEvery {
		w.extended = now
		_ = w.conn.SetDeadline(now.Add(replyTimeout)) // what is sent or read fails where this does
	}
}

// send sends up to n frames. done means that the source has no more.
func (w *worker) send(n int, now time.Time) (done bool) {
	if w.first > 0 { // the same memory again
		w.sent = w.sent[:copy(w.sent, w.sent[w.first:])]
		w.first = 0
	}
	for range n {
		xml := w.source.Next()
		if xml == nil {
			done = true
			break
		}
		w.conn.SendFrame(xml)
		w.lane.bytesOut += uint64(len(xml))
		w.sent = append(w.sent, now)
	}
	if bytes := w.conn.Unflushed(); bytes > 0 {
		if err := w.conn.Flush(); err != nil {
			// The read that follows ends the run.
			w.lane.writeErr = fmt.Errorf("%d frames of %d bytes under way, more than the server takes before its replies "+
				"are: %w", w.underWay(), bytes, err)
		}
	}
	return done
}

// read takes one reply, and all others that are here.
func (w *worker) read() error {
	for first := true; first || w.underWay() > 0 && w.conn.Buffered(); first = false {
		reply, err := w.conn.NextReply()
		if err != nil {
			return err
		}
		now := time.Now()
		w.lane.bytesIn += uint64(len(reply))
		w.answer(w.sent[w.first], now, w.source.Reply(reply))
		w.first++
	}
	return nil
}

// answer records a request once all its frames have their replies.
func (w *worker) answer(sent, now time.Time, wrong error) {
	if w.parts == 0 {
		w.begun, w.wrong = sent, nil
	}
	if wrong != nil {
		w.wrong = wrong
	}
	if w.parts++; w.parts == w.frames {
		w.parts = 0
		w.lane.Add(w.begun, w.begun, now, w.wrong)
	}
}

// Each opens a connection for every request of a source, sends its frames, each once the
// reply to the one before is here, and closes it: connections at a time. It is how many
// clients of the protocol work. A request's latency includes the connection. All begin at
// once, and count their first request from that moment. A server that closes after a reply
// gets a connection for each frame.
func Each(ctx context.Context, o Options, source func(client int) Source) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := NewRecorder(o)
	var running sync.WaitGroup
	gate := make(chan struct{}) // all clients begin at once
	shared := make([]sharedRecorder, min(max(o.Connections, 1), sharedMax))
	for i := range shared {
		shared[i].Lane = r.Lane()
	}
	for n := range o.Connections {
		s, rec := source(n), &shared[n%len(shared)]
		running.Go(func() {
			<-gate
			begun := r.began // the first frame is due when the gate opens
			for ; ctx.Err() == nil && (o.Duration == 0 || time.Since(r.began) < o.Duration); begun = time.Now() {
				xml := s.Next()
				if xml == nil {
					return
				}
				bytesOut, bytesIn, err := o.once(ctx, n, xml, s)
				var broken *brokenError
				if errors.As(err, &broken) {
					cancel(fmt.Errorf("load: client %d: %w", n+1, err))
					return
				}
				rec.add(begun, bytesOut, bytesIn, err)
			}
		})
	}
	r.began = time.Now()
	defer r.Report()()
	close(gate)
	running.Wait()
	for i := range shared {
		shared[i].Flush()
	}
	return r.Result(nil), context.Cause(ctx)
}

// sharedMax is how many recorders the clients of Each have between them: one for
// each of ten thousand clients would take longer to make than their run.
const sharedMax = 64

type sharedRecorder struct {
	sync.Mutex
	*Lane
}

func (s *sharedRecorder) add(begun time.Time, bytesOut, bytesIn int, err error) {
	now := time.Now()
	s.Lock()
	defer s.Unlock()
	s.bytesOut += uint64(bytesOut)
	s.bytesIn += uint64(bytesIn)
	s.Lane.Add(begun, begun, now, err)
}

// brokenError is a connection that did not do what it should.
type brokenError struct{ error }

// once sends a request of client n, whose first frame is xml, and returns how long its frames and
// their replies are.
func (o *Options) once(ctx context.Context, n int, xml []byte, s Source) (bytesOut, bytesIn int, err error) {
	var c link
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for part := 1; ; part++ {
		if c == nil {
			made, err := o.dial(ctx, n)
			if err != nil {
				return 0, 0, &brokenError{err}
			}
			c = made
		}
		reply, broken := exchanged(c, xml)
		if broken != nil {
			return 0, 0, &brokenError{broken}
		}
		bytesOut, bytesIn = bytesOut+len(xml), bytesIn+len(reply)
		err = errors.Join(err, s.Reply(reply))
		if part >= o.Frames {
			return bytesOut, bytesIn, err
		}
		if xml = s.Next(); xml == nil {
			return bytesOut, bytesIn, err
		}
		if o.Habits.OneFrame {
			c.Close()
			c = nil
		}
	}
}

// exchanged sends a frame and returns its reply, which is valid until the next one.
func exchanged(c link, xml []byte) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	c.SendFrame(xml)
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return c.NextReply()
}
