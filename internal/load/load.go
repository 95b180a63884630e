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
	"sync"
	"time"

	"outcry/clients/go/client"
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
	Progress    func(Progress)
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
	conns := make([]*client.Conn, 0, o.Connections)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for n := range o.Connections {
		c, err := dial(ctx, o.addr(n))
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.Close() // ends what waits
		}
	})()
	r := NewRecorder(o)
	defer r.Report()()
	var running sync.WaitGroup
	for n, c := range conns {
		running.Go(func() {
			w := &worker{conn: c, source: source(n), lane: r.Lane(), depth: max(o.Depth, 1)}
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

func dial(ctx context.Context, addr string) (*client.Conn, error) {
	c, err := client.DialConn(ctx, addr, client.Options{DialTimeout: dialTimeout, ReplyBytesMax: replyBytesMax})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return c, nil
}

// worker keeps depth frames under way on one connection.
type worker struct {
	conn   *client.Conn
	source Source
	lane   *Lane
	depth  int
	until  time.Time // zero: until the source has no more

	sent []time.Time // of the frames under way, oldest first
}

// run sends and reads until the time is up, or the source is done, and every
// frame has its reply. Frames that may be sent together are: one write a batch.
func (w *worker) run() error {
	done := w.send(w.depth, time.Now())
	for len(w.sent) > 0 {
		if err := w.conn.SetReadDeadline(time.Now().Add(replyTimeout)); err != nil {
			return err
		}
		if err := w.read(); err != nil {
			return err
		}
		now := time.Now()
		if !done && (w.until.IsZero() || now.Before(w.until)) {
			done = w.send(w.depth-len(w.sent), now)
		}
	}
	return w.lane.writeErr
}

// send sends up to n frames. done means that the source has no more.
func (w *worker) send(n int, now time.Time) (done bool) {
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
		_ = w.conn.SetWriteDeadline(now.Add(replyTimeout)) // the write fails where this does
		if err := w.conn.Flush(); err != nil {
			// The read that follows ends the run.
			w.lane.writeErr = fmt.Errorf("%d frames of %d bytes under way, more than the server takes before its replies "+
				"are: %w", len(w.sent), bytes, err)
		}
	}
	return done
}

// read takes one reply, and all others that are here.
func (w *worker) read() error {
	for first := true; first || len(w.sent) > 0 && w.conn.Buffered(); first = false {
		reply, err := w.conn.NextReply()
		if err != nil {
			return err
		}
		now := time.Now()
		w.lane.bytesIn += uint64(len(reply))
		w.lane.Add(w.sent[0], w.sent[0], now, w.source.Reply(reply))
		w.sent = w.sent[1:]
	}
	if len(w.sent) == 0 {
		w.sent = w.sent[:0:cap(w.sent)]
	}
	return nil
}

// Each opens a connection for every frame of a source, sends it, takes the reply,
// and closes it: connections at a time. It is how many clients of the protocol
// work. A request's latency includes the connection. All begin at once, and count
// their first frame from that moment.
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
				replyBytes, err := once(ctx, o.addr(n), xml, s)
				var broken *brokenError
				if errors.As(err, &broken) {
					cancel(fmt.Errorf("load: client %d: %w", n+1, err))
					return
				}
				rec.add(begun, len(xml), replyBytes, err)
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

// once sends a frame on a connection of its own and returns the length of the reply.
func once(ctx context.Context, addr string, xml []byte, s Source) (replyBytes int, err error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return 0, &brokenError{err}
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return 0, &brokenError{err}
	}
	c.SendFrame(xml)
	if err := c.Flush(); err != nil {
		return 0, &brokenError{err}
	}
	reply, err := c.NextReply()
	if err != nil {
		return 0, &brokenError{err}
	}
	return len(reply), s.Reply(reply)
}
