// Package load sends frames to one or more servers over TCP and measures how fast they answer. Package
// scenario, in its directory, defines the frames.
//
// There are three models. Closed: C connections, each of which sends its next frame when it has the reply to the one
// before. Pipelined: the same with D unanswered frames on each connection. Open: frames are due at a fixed rate,
// regardless of the server, and a frame's latency counts from the time it was due, as users experience it.
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

// Source makes the frames of one connection and receives the replies in order. It is used by one
// goroutine.
type Source interface {
	// Next returns the XML of the next frame, or nil if there are no more. The slice is valid until the
	// next call.
	Next() []byte
	// Reply processes the XML of a reply, which is valid until Reply returns. An error means that the
	// reply was unexpected; it is counted and shown, and the run continues.
	Reply(xml []byte) error
}

// Options configure a load.
type Options struct {
	Addrs       []string      // addresses of one exchange or several; connection n uses address n mod their number
	Connections int           // number of concurrent connections
	Depth       int           // unanswered frames on each connection, at most; 1 is the closed model
	Duration    time.Duration // how long frames are sent; 0 means until the sources are exhausted
	Frames      int           // consecutive frames that form a request; 0 means 1; not for the open model
	Pause       time.Duration // delay between a request and the connection's next one; closed model only
	Progress    func(Progress)

	Habits        dialect.Habits // how the server differs from the protocol's framing
	ReplyBytesMax int            // a larger reply ends the run; 0 means 256 MiB
	Client        client.Options // TLS and token of the connections; cannot be combined with Habits

	// Greet, if not nil, is for servers of another protocol. It performs the handshake on a new
	// connection and returns the connection's codec. It cannot be combined with Habits or Client.
	Greet func(conn net.Conn) (Codec, error)
}

// addr returns the address of connection n.
func (o Options) addr(n int) string { return o.Addrs[n%len(o.Addrs)] }

// Progress is the current state of a run. Figures are those of the last second unless noted.
type Progress struct {
	Elapsed, Left time.Duration // Left is 0 if unknown
	Requests      uint64        // answered since the start
	Rate          float64       // answered requests a second
	Errors        uint64        // since the start
	P50, P99      time.Duration
}

// String returns the progress in a line of constant width.
func (p Progress) String() string {
	return fmt.Sprintf("%6.0f s  %9d answered  %8.0f/s  p50 %8s  p99 %8s  %d unexpected  %4.0f s left",
		p.Elapsed.Seconds(), p.Requests, p.Rate, p.P50.Round(10*time.Microsecond), p.P99.Round(10*time.Microsecond),
		p.Errors, p.Left.Seconds())
}

const (
	dialTimeout = 30 * time.Second

	// replyTimeout is how long a server may take for a reply. A run with a later reply fails instead of
	// counting as slow.
	replyTimeout = 60 * time.Second

	replyBytesMax = 256 << 20
)

// Closed runs the closed or pipelined model, with a source for each connection. All connections are made
// before the first frame is sent. It returns an error if a connection could not be made or broke.
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
			c.Close() // unblocks pending reads and writes
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

// worker keeps depth unanswered frames on one connection.
type worker struct {
	conn     link
	source   Source
	lane     *Lane
	depth    int
	until    time.Time // zero means until the source is exhausted
	extended time.Time // when the deadline was last set

	sent  []time.Time // send times of the unanswered frames, oldest first; those before index first are answered
	first int

	frames int // frames of a request
	pause  time.Duration
	parts  int       // answered frames of the current request
	begun  time.Time // when the current request began
	wrong  error     // first error of the current request
}

// underWay returns the number of unanswered frames.
func (w *worker) underWay() int { return len(w.sent) - w.first }

// run sends and reads until the time is up or the source is exhausted, and every frame has its reply.
// Frames that may be sent together are sent in one write.
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

// extendedEvery is how often a connection gets a new deadline. A new deadline for each frame would double the
// client's cost of a frame.
const extendedEvery = time.Second

// extend sets the connection's deadline to replyTimeout from now. The deadline may be up to a second
// earlier.
func (w *worker) extend(now time.Time) {
	if now.Sub(w.extended) >= extendedEvery {
		w.extended = now
		_ = w.conn.SetDeadline(now.Add(replyTimeout)) // if this fails, so does the next read or write
	}
}

// send sends up to n frames. done is true if the source has no more.
func (w *worker) send(n int, now time.Time) (done bool) {
	if w.first > 0 { // reuse the memory
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
			// The next read ends the run.
			w.lane.writeErr = fmt.Errorf("%d frames of %d bytes are unanswered, more than the server reads before its "+
				"replies are "+
				"read: %w", w.underWay(), bytes, err)
		}
	}
	return done
}

// read reads one reply and all others that are already buffered.
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

// Each opens a connection for every request of a source, sends the request's frames one after another, and closes
// the connection, as many clients of the protocol do. o.Connections clients run concurrently. A request's latency
// includes connecting. All clients start at once, and their first request counts from that moment. If the server
// closes after each reply, each frame gets its own connection. It returns an error if a connection could not be
// made or broke.
func Each(ctx context.Context, o Options, source func(client int) Source) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := NewRecorder(o)
	var running sync.WaitGroup
	gate := make(chan struct{}) // closed to start all clients at once
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

// sharedMax is the maximum number of recorders that the clients of Each share. Making a recorder for each of ten
// thousand clients would take longer than the run.
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

// brokenError is a failure of a connection.
type brokenError struct{ error }

// once sends a request of client n on a new connection. xml is the request's first frame. It returns the
// total lengths of the frames and of the replies.
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

// exchanged sends a frame and returns its reply, which is valid until the next call.
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
