// Package door is what a client of the exchange meets whatever protocol it speaks: a Server with
// its connections, and the policy for them: who the client is and what it may do, how often, within
// which memory and time, and that replies are in order and durable before they are seen. It works on
// commands and results; a Codec turns bytes into the one and the other into bytes.
//
// A session has two goroutines. The reader takes every frame that is already
// here, has their commands executed as one, encodes the replies, and goes on; it
// never waits for a disk. The writer waits until a reply is durable, and sends
// it. So replies leave in the order of the frames, and a client that pipelines
// pays one hand-off and one sync for many frames. The queue between the two is
// short: a client that does not take its replies is not read from.
//
// If a reply waits for the history, a third goroutine encodes it and those behind
// it, for as long as there are any (late.go): the reader never waits for a database,
// except for a ref that perhaps only the history knows.
//
// A connection that the server closes gets the reason as its last reply, after
// the replies to all frames that took effect.
package door

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// Exchange is what a Server needs of the engine. Its methods are called from
// many goroutines.
type Exchange interface {
	// Execute does the commands in order and fills results, which has the same
	// length. Nothing of them may be seen before Durable has returned nil for the mark.
	// An error means that the exchange has failed or is stopping, or is ctx's;
	// nothing of it may be seen then.
	Execute(ctx context.Context, commands []engine.Request, results []exchange.Result) (engine.Mark, error)
	// Recall completes a result that Execute left as InHistory: the order is only in the
	// database. It loads up to most executions. What it tells is covered by the mark that
	// Execute returned.
	Recall(ctx context.Context, c *engine.Request, r *exchange.Result, most int)
	// Ready returns how many of the commands, from the first on, Execute does without
	// asking the database. It does not wait.
	Ready(commands []engine.Request) int
	// Durable waits until what the mark was returned for may be seen: it is durable, and
	// no other machine has gone on without it. An error means that it never may be, or is ctx's.
	Durable(ctx context.Context, m engine.Mark) error
	// Notify sends to wake, which has room for one value, as soon as it is worth while
	// to call Durable. It does not wait.
	Notify(m engine.Mark, wake chan<- struct{})
	// MayTell reports whether Durable(m) would return nil at once.
	MayTell(m engine.Mark) bool
	// NewOrigin returns what the orders of a connection name that are canceled when it ends, which EndOrigin
	// says, behind its last call of Execute. It does not wait.
	NewOrigin() *engine.Origin
	EndOrigin(o *engine.Origin)
	// Mark returns the mark of what its caller has read up to now.
	Mark() engine.Mark
}

// View answers what accounts ask about themselves.
type View interface {
	// Show completes a result that Execute left as InView, once it has the record that the result
	// names, and within a time of its own. What it tells is durable by then. Its caller has made sure that the
	// client may see the account. Unless history, the database is not asked: what is only there is HistoryUnavailable.
	Show(ctx context.Context, c *exchange.Command, r *exchange.Result, history bool)
}

// Server serves clients of the exchange, in any number of protocols: what it bounds, it bounds for
// all of them together. Its methods may be called from any goroutine.
type Server struct {
	exchange Exchange
	options  Options // except limits
	limits   atomic.Pointer[Limits]
	batches  sync.Pool // of *batch
	replies  sync.Pool // of *reply
	calls    sync.Pool // of *called
	arriving *memory   // of frames
	working  *memory   // of batches and replies
	huge     *memory   // of huge ones

	recalling   *memory             // of batches that wait for the history, or behind one
	recalls     *semaphore.Weighted // recallsMax
	answering   *semaphore.Weighted // answersMax
	lateAnswers *semaphore.Weighted // lateAnswersMax

	connectionRate atomic.Int64 // SetRates
	accountRate    atomic.Int64
	accounts       *accountRates

	ctx       context.Context // of all sessions; ends when they are cut off
	cutOff    context.CancelFunc
	accepting context.Context // ends when the server shuts down
	drain     context.CancelFunc
	aborted   atomic.Bool
	lastID    atomic.Uint64  // of a connection
	running   sync.WaitGroup // sessions, and connections that are refused

	// mu guards what follows.
	mu        sync.Mutex
	listeners []net.Listener
	sessions  map[*session]struct{} // those that are refused included
	served    int                   // those that are not refused, and callers that Enter let in
	bearers   map[string]int        // how many of them act as the bearer of a token, by its ID
	unproved  list.List             // of *place: those of served that have to prove who they are, the oldest first
}

// New returns a server that does not listen yet. Shutdown ends it.
func New(x Exchange, o Options) *Server {
	o.setDefaults()
	s := &Server{exchange: x, options: o, sessions: make(map[*session]struct{}), bearers: make(map[string]int),
		accounts: newAccountRates()}
	s.limits.Store(&Limits{ConnectionsMax: o.ConnectionsMax, IdleTimeout: o.IdleTimeout, FrameTimeout: o.FrameTimeout,
		WriteTimeout: o.WriteTimeout})
	s.batches.New = func() any { return newBatch(s) }
	s.replies.New = func() any { return new(reply) }
	eighth := int64(o.MemoryMax / 8)
	s.arriving = newMemory(max(1, 2*eighth), o.Metrics.arriving)
	s.working = newMemory(max(1, 3*eighth), o.Metrics.working)
	s.huge = newMemory(max(1, 2*eighth), o.Metrics.huge)
	s.recalling = newMemory(max(1, eighth), o.Metrics.recalling)
	s.recalls = semaphore.NewWeighted(recallsMax)
	s.answering, s.lateAnswers = semaphore.NewWeighted(answersMax), semaphore.NewWeighted(lateAnswersMax)
	s.ctx, s.cutOff = context.WithCancel(context.Background())
	s.accepting, s.drain = context.WithCancel(s.ctx)
	return s
}

// Serve accepts connections from l, which it closes at its end, of clients that speak the protocol
// of c. It returns nil after Shutdown, and an error if somebody else closed l.
// Other errors of l, such as too many open files, are waited out.
func (s *Server) Serve(l net.Listener, c Codec) error {
	defer l.Close()
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	var failing acceptFailures
	for !s.isDraining() {
		conn, err := l.Accept()
		switch {
		case err == nil:
			failing.wait = 0
			s.open(conn, c)
		case s.isDraining():
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("session: accept: %w", err)
		default:
			s.backOff(&failing, err)
		}
	}
	return nil
}

// acceptFailures are the errors of accept that have come lately.
type acceptFailures struct {
	wait time.Duration // after the last, 0 if a connection has come since
	last time.Time     // when that was
}

// backOff waits after an error of accept: connections that end free what is
// missing. It logs the first of a spell of errors, in which connections may well
// be accepted, each as another ends.
func (s *Server) backOff(f *acceptFailures, err error) {
	s.options.Metrics.acceptErrors.Inc()
	f.wait = max(acceptRetryMin, min(2*f.wait, acceptRetryMax))
	if now := time.Now(); now.Sub(f.last) > acceptSpell {
		s.options.Log.Warn("connections cannot be accepted", "error", err)
	}
	select {
	case <-time.After(f.wait):
	case <-s.accepting.Done():
	}
	f.last = time.Now()
}

// open begins a session, or refuses the connection if there are too many.
func (s *Server) open(conn net.Conn, codec Codec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.limits.Load().ConnectionsMax
	refused := s.served >= most
	if refused {
		s.options.Metrics.hit(limitConnections)
		refused = !s.displace()
	}
	if s.isDraining() || refused && len(s.sessions)-s.served >= RefusedMax {
		conn.Close()
		return
	}
	if s.options.TLS != nil {
		conn = tls.Server(conn, s.options.TLS)
	}
	c := newSession(s, conn, codec)
	s.sessions[c] = struct{}{}
	if refused {
		c.log(slog.LevelWarn, "a connection is refused: there are too many", 0)
		s.running.Go(func() {
			c.refuse(fmt.Sprintf("the exchange has %d connections and takes no more; try again later", most))
			s.forget(c, false)
		})
		return
	}
	s.served++
	if s.asks() {
		c.unproved = s.unproved.PushBack(&c.place)
	}
	s.options.Metrics.opened()
	s.running.Go(func() {
		c.serve()
		s.forget(c, true)
		s.options.Metrics.connections.Dec()
	})
}

// forget notes the end of a session, which had a place if it was served.
func (s *Server) forget(c *session, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
	if served {
		s.quit(&c.place)
	}
}

func (s *Server) isDraining() bool { return s.accepting.Err() != nil }

// Admit waits for the memory of a frame of so many bytes that another transport is
// about to read, and returns what gives it back once the frame is done. It asks
// nobody for a frame that a connection has the memory for. The error says to a client
// that there was none for FrameTimeout, or is ctx's.
func (s *Server) Admit(ctx context.Context, frameBytes int) (release func(), err error) {
	if frameBytes <= smallFrameMax {
		return func() {}, nil
	}
	patience := s.limits.Load().FrameTimeout
	held, err := s.arriving.wait(ctx, 2*frameBytes, patience)
	if errors.Is(err, errNoMemory) {
		s.options.Metrics.hit(limitMemory)
		return nil, errors.New(textNoMemory(patience))
	}
	if err != nil {
		return nil, fmt.Errorf("session: wait for memory: %w", err)
	}
	return func() { s.arriving.release(held) }, nil
}

// Answer does one frame in the protocol of c, and hands its reply to tell once everything in it is
// durable: the same as a frame over TCP, for other transports. The frame's size is for the
// caller to bound. The reply is valid until tell returns, and holds memory so long.
// The error ErrBusy means that nothing was done. Any other means that the exchange has
// failed or is stopping, or is ctx's; whether the frame was done is unknown then. Nothing
// was told in either case.
//
// If the server asks for tokens, ctx carries what the client may do (auth.WithGrant);
// without that, or after its end, the frame is refused.
func (s *Server) Answer(ctx context.Context, c Codec, frame []byte, tell func(reply []byte)) error {
	if s.aborted.Load() {
		return ErrAborted
	}
	grant := auth.GrantOf(ctx)
	if s.options.Tokens != nil && (grant == nil || grant.Err() != nil) {
		tell(c.AppendError(nil, "the token of this request has ended"))
		return nil
	}
	b := s.takeBatch(c)
	r := s.newReply(engine.Mark{}, time.Now())
	defer s.recycle(r)
	m := s.options.Metrics
	b.clock.start(r.begun)
	if err := s.hold(ctx, b, c.Memory(frame)); err != nil {
		s.discard(b)
		if errors.Is(err, errNoMemory) {
			s.options.Metrics.hit(limitMemory)
			tell(c.AppendError(nil, textNoMemory(s.limits.Load().FrameTimeout)))
			return nil
		}
		return fmt.Errorf("session: wait for memory: %w", err)
	}
	b.judge = s.judgeOf(grant)
	b.add(frame)
	m.lap(&b.clock, stageDecode)
	if err := s.answer(ctx, b, r); err != nil {
		return err
	}
	m.lap(&r.clock, stageJournal)
	if s.aborted.Load() {
		return ErrAborted
	}
	tell(r.bytes)
	m.answered(r)
	return nil
}

// answer does the frame of a batch, which it gives back, and returns once the reply may be
// told.
func (s *Server) answer(ctx context.Context, b *batch, r *reply) error {
	if !s.answering.TryAcquire(1) {
		s.discard(b)
		return ErrBusy
	}
	defer s.answering.Release(1)
	late := s.exchange.Ready(b.commands) < len(b.commands)
	if late && !s.lateAnswers.TryAcquire(1) {
		s.discard(b)
		return ErrBusy
	}
	mark, err := s.execute(ctx, b)
	b.clock.resume()
	if err == nil && b.recalls && !late { // the view is there about when the reply is durable: nobody is refused for it
		late = s.lateAnswers.TryAcquire(1)
		b.answers.unavailable = !late
	}
	if late {
		defer s.lateAnswers.Release(1)
	}
	if err != nil {
		s.discard(b)
		return err
	}
	b.appendReply(ctx, r, 0)
	s.options.Metrics.executed(b, r)
	s.holdReply(r, b)
	s.release(b)
	return s.await(ctx, mark)
}

// await waits until what a mark was returned for may be seen: of the zero mark, at once. The
// error is the exchange's, or ctx's.
func (s *Server) await(ctx context.Context, m engine.Mark) error {
	if m == (engine.Mark{}) {
		return nil
	}
	if err := s.exchange.Durable(ctx, m); err != nil {
		return fmt.Errorf("session: wait for record %d: %w", m.Seq, err)
	}
	return nil
}

// Shutdown ends the server in order: no new connections; frames that have arrived
// are executed and answered; each client is told that it was the last reply; the
// connections are closed. Once ctx ends, connections that are left are cut off, and
// ctx's error is returned. No goroutine is left in either case.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	s.mu.Lock()
	for _, l := range s.listeners {
		l.Close()
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
	defer s.cutOff()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cutOff()
	s.mu.Lock()
	for c := range s.sessions {
		c.cutOff()
	}
	s.mu.Unlock()
	<-done
	return fmt.Errorf("session: connections were cut off: %w", ctx.Err())
}
