// Package gateway is the TCP side of the exchange: a listener and its sessions.
//
// A session has two goroutines. The reader takes every frame that is already
// here, has their commands executed as one, encodes the replies, and goes on; it
// never waits for a disk. The writer waits until a reply may be told and sends
// it. So replies leave in the order of the frames, and a client that pipelines
// pays one hand-off and one sync for many frames. The queue between the two is
// short: a client that does not take its replies is not read from.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/wire"
)

// Exchange is what the gateway needs of the engine.
type Exchange interface {
	// Execute does the commands in order and fills results, which has the same
	// length. Nothing of them may be told before everything up to seq is durable.
	// An error means that the exchange has failed or is stopping.
	Execute(ctx context.Context, commands []exchange.Command, results []exchange.Result) (seq uint64, err error)
	// Durable waits until everything up to seq may be told.
	Durable(ctx context.Context, seq uint64) error
}

// Options are the limits of a Server. The zero value of each means its default.
type Options struct {
	FrameBytesMax   int           // largest frame; 4 MiB
	ConnectionsMax  int           // 16,384
	IdleTimeout     time.Duration // how long a connection may send nothing; 10 minutes
	FrameTimeout    time.Duration // how long a begun frame may take to arrive; 30 seconds
	WriteTimeout    time.Duration // how long a client may leave replies untaken; 30 seconds
	LingerTimeout   time.Duration // how long is read and discarded after an error; 2 seconds
	BatchFramesMax  int           // pipelined frames that are executed together; 64
	BatchBytesMax   int           // bytes of them; 256 KiB
	RepliesQueueMax int           // batches of replies that wait for their turn; 16

	BareReplies bool // leave the length line out of replies
	Log         *slog.Logger
	Metrics     *Metrics // nil means nobody looks
}

func (o *Options) setDefaults() {
	setDefault(&o.FrameBytesMax, 4<<20)
	setDefault(&o.ConnectionsMax, 16384)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.FrameTimeout, 30*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.LingerTimeout, 2*time.Second)
	setDefault(&o.BatchFramesMax, 64)
	setDefault(&o.BatchBytesMax, 256<<10)
	setDefault(&o.RepliesQueueMax, 16)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}

func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

const (
	// refusingMax is how many connections over the limit are told so at a time.
	// Those beyond are closed without a word.
	refusingMax = 64

	// drainGrace is how long a session that is being drained still reads: long
	// enough for what the client's kernel has already delivered.
	drainGrace = 50 * time.Millisecond

	// After an error of accept, the listener waits acceptRetryMin, then twice as
	// long each time, up to acceptRetryMax.
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = time.Second
)

// Server serves the XML protocol. Its methods may be called from any goroutine.
type Server struct {
	exchange Exchange
	options  Options
	jobs     sync.Pool

	ctx      context.Context // of all sessions; ends when they are cut off
	cutOff   context.CancelFunc
	draining atomic.Bool
	running  sync.WaitGroup // sessions and refusals
	refusing chan struct{}

	// mu guards what follows.
	mu       sync.Mutex
	listener net.Listener
	sessions map[*session]struct{}
}

// New returns a server that does not listen yet.
func New(x Exchange, o Options) *Server {
	o.setDefaults()
	s := &Server{exchange: x, options: o, sessions: make(map[*session]struct{}), refusing: make(chan struct{}, refusingMax)}
	s.jobs.New = func() any { return new(job) }
	s.ctx, s.cutOff = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections until Shutdown, and then returns nil. Any other end
// of the listener is an error.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	retry := acceptRetryMin
	for {
		conn, err := l.Accept()
		if s.draining.Load() {
			if err == nil {
				conn.Close()
			}
			l.Close()
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			// Out of file descriptors, most likely: connections that end free some.
			s.options.Log.Warn("a connection cannot be accepted", "error", err, "next_try_in", retry)
			select {
			case <-time.After(retry):
			case <-s.ctx.Done():
			}
			retry = min(2*retry, acceptRetryMax)
			continue
		}
		retry = acceptRetryMin
		s.open(conn)
	}
}

// open begins a session, or refuses the connection where there are too many.
func (s *Server) open(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		conn.Close()
		return
	case len(s.sessions) >= s.options.ConnectionsMax:
		s.refuse(conn)
		return
	}
	s.options.Metrics.connections.Inc()
	s.options.Metrics.accepted.Inc()
	c := newSession(s, conn)
	s.sessions[c] = struct{}{}
	s.running.Go(func() {
		c.run()
		s.mu.Lock()
		delete(s.sessions, c)
		s.mu.Unlock()
		s.options.Metrics.connections.Dec()
	})
}

// refuse tells a connection that it is one too many, without waiting for it.
func (s *Server) refuse(conn net.Conn) {
	s.options.Metrics.hit(limitConnections)
	select {
	case s.refusing <- struct{}{}:
	default:
		conn.Close()
		return
	}
	s.running.Go(func() {
		defer func() { <-s.refusing }()
		reply := s.frame(nil, wire.AppendError(nil, "the exchange has as many connections as it takes, try again later"))
		_ = conn.SetWriteDeadline(time.Now().Add(s.options.LingerTimeout))
		if _, err := conn.Write(reply); err == nil {
			s.linger(conn)
		}
		conn.Close()
	})
}

// linger ends the sending side and reads and discards for a bounded time, so that
// the last reply is not lost in a reset.
func (s *Server) linger(conn net.Conn) {
	if tcp, ok := conn.(interface{ CloseWrite() error }); ok {
		if tcp.CloseWrite() != nil {
			return
		}
	}
	if conn.SetReadDeadline(time.Now().Add(s.options.LingerTimeout)) != nil {
		return
	}
	buf := make([]byte, 4096)
	for s.ctx.Err() == nil {
		if _, err := conn.Read(buf); err != nil {
			return
		}
	}
}

// frame appends a reply as it is sent: with its length, unless replies are bare.
func (s *Server) frame(dst, reply []byte) []byte {
	if s.options.BareReplies {
		return append(dst, reply...)
	}
	return wire.AppendFrame(dst, reply)
}

// Shutdown ends the server in order: no new connections, the frames that are in
// are finished and answered, then connections are closed. When ctx ends first,
// what is left is cut off, and ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	if s.listener != nil {
		s.listener.Close()
	}
	for c := range s.sessions {
		c.drain()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cutOff()
		return nil
	case <-ctx.Done():
	}
	s.cutOff()
	s.mu.Lock()
	for c := range s.sessions {
		c.conn.Close()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}
