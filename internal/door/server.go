// Package door is the part of the exchange that clients connect to, whatever their protocol: a Server
// accepts their connections and applies permissions, rates and limits. It also ensures that replies are sent
// in order and only once they are durable. It works on commands and results; a Codec translates between these
// and bytes.
//
// A session has two goroutines. The reader takes every frame that has already arrived, has their commands
// executed together, encodes the replies, and reads on; it never waits for a disk. The writer waits until a
// reply is durable, and sends it. So replies leave in the order of the frames, and a client that pipelines
// pays one hand-off and one sync for many frames. The queue between the two is short: the server stops
// reading from a client that does not read its replies.
//
// If a reply waits for the history, a third goroutine encodes it and the replies after it, until none waits
// any more (late.go). The reader never waits for a database, except for a ref that may be known only in the
// history.
//
// When the server closes a connection, its last reply says why, after the replies to all frames that took
// effect.
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

// Exchange is the part of the engine that a Server uses. Its methods are called from many goroutines.
type Exchange interface {
	// Execute executes the commands in order and fills results, which has the same length. No result may be
	// shown to a client before Durable has returned nil for the mark. The error means that the exchange has
	// failed or is stopping, or is ctx's; then no result may ever be shown.
	Execute(ctx context.Context, commands []engine.Request, results []exchange.Result) (engine.Mark, error)
	// Recall completes a result that Execute left pending as InHistory: the order is only in the database. It loads
	// up to most executions. The mark that Execute returned covers what it loads.
	Recall(ctx context.Context, c *engine.Request, r *exchange.Result, most int)
	// Ready returns how many of the commands, from the first on, Execute can do without asking the database.
	// It does not wait.
	Ready(commands []engine.Request) int
	// Durable waits until what the mark covers may be shown to clients: it is durable, and no other machine
	// has become the leader without it. The error means that it may never be shown, or is ctx's.
	Durable(ctx context.Context, m engine.Mark) error
	// Notify sends to wake as soon as it is worthwhile to call Durable. wake must have a buffer of one.
	// Notify does not wait.
	Notify(m engine.Mark, wake chan<- struct{})
	// MayTell reports whether Durable(m) would return nil at once.
	MayTell(m engine.Mark) bool
	// NewOrigin returns an origin, which links orders to a connection: they are canceled after EndOrigin.
	// Call EndOrigin after the connection's last call of Execute. Neither method waits.
	NewOrigin() *engine.Origin
	EndOrigin(o *engine.Origin)
	// Mark returns the mark of all that its caller has read so far.
	Mark() engine.Mark
}

// View answers queries of accounts about themselves.
type View interface {
	// Show completes a result that Execute left pending as InView. It waits, within a time limit of its own, until
	// the view includes the record that the result names. The data that it returns is durable. The caller has
	// checked that the client may see the account. If history is false, Show does not ask the database: data
	// that is only there becomes HistoryUnavailable.
	Show(ctx context.Context, c *exchange.Command, r *exchange.Result, history bool)
}

// Server serves clients of the exchange in any number of protocols. Its limits hold for all protocols
// together. Its methods may be called from any goroutine.
type Server struct {
	exchange Exchange
	options  Options // the fields that Limits has too are only initial values: see limits
	limits   atomic.Pointer[Limits]
	batches  sync.Pool // of *batch
	replies  sync.Pool // of *reply
	calls    sync.Pool // of *called
	arriving *memory   // for large frames that arrive
	working  *memory   // for large batches and replies
	huge     *memory   // for the largest batches and replies

	recalling   *memory             // for batches that wait in the queue of answerLate
	recalls     *semaphore.Weighted // of recallsMax
	answering   *semaphore.Weighted // of answersMax
	lateAnswers *semaphore.Weighted // of lateAnswersMax

	connectionRate atomic.Int64 // commands per second of a connection, 0 for no limit (SetRates)
	accountRate    atomic.Int64
	accounts       *accountRates

	ctx       context.Context // of all sessions; ends when they are cut off
	cutOff    context.CancelFunc
	accepting context.Context // ends when the server shuts down
	drain     context.CancelFunc
	aborted   atomic.Bool
	lastID    atomic.Uint64  // id of the newest connection
	running   sync.WaitGroup // counts sessions, and connections that are being refused

	// mu guards the fields below.
	mu        sync.Mutex
	listeners []net.Listener
	sessions  map[connection]struct{} // includes connections that are being refused
	served    int                     // sessions that were not refused, and callers that Enter admitted
	refused   int                     // sessions that are being refused
	bearers   map[string]int          // number of served connections that use a token, by the token's ID
	unproved  list.List               // of *place: served connections that have not authenticated yet, the oldest first
}

// connection is a session as its server sees it, which calls the methods from any goroutine. None waits.
type connection interface {
	drain()        // ends the session once what has already arrived is answered; the server must be draining
	cutOff()       // closes the connection at once
	rereadLimits() // makes the session use changed limits
}

// New returns a server that does not listen yet. End it with Shutdown.
func New(x Exchange, o Options) *Server {
	o.setDefaults()
	s := &Server{exchange: x, options: o, sessions: make(map[connection]struct{}), bearers: make(map[string]int),
		accounts: newAccountRates()}
	s.limits.Store(&Limits{ConnectionsMax: o.ConnectionsMax, IdleTimeout: o.IdleTimeout, FrameTimeout: o.FrameTimeout,
		WriteTimeout: o.WriteTimeout})
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

// Serve accepts connections from l, whose clients use the protocol of c, and closes l at the end. It returns
// nil after Shutdown, and an error if l was closed by other code. It waits and retries after other errors of
// l, such as too many open files.
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

// acceptFailures is the state of a run of errors of accept.
type acceptFailures struct {
	wait time.Duration // the last wait; 0 after a connection was accepted
	last time.Time     // when the last error was handled
}

// backOff waits after an error of accept, as connections that end free what is missing. It logs only the
// first of a run of errors; connections may be accepted during such a run, one as another ends.
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

// open starts a session, or refuses the connection if the limit is reached.
func (s *Server) open(conn net.Conn, codec Codec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDraining() {
		conn.Close()
		return
	}
	full := s.takePlace()
	if full != nil && s.refused >= RefusedMax {
		conn.Close()
		return
	}
	if s.options.TLS != nil {
		conn = tls.Server(conn, s.options.TLS)
	}
	c := newSession(s, conn, codec)
	s.sessions[c] = struct{}{}
	if full != nil {
		s.refused++
		c.log(slog.LevelWarn, "a connection is refused: the limit is reached", 0)
		s.running.Go(func() {
			c.refuse(full.Error())
			s.forget(c, false)
		})
		return
	}
	if s.needsProof() {
		s.listUnproved(&c.caller.place)
	}
	s.options.Metrics.opened()
	s.running.Go(func() {
		c.serve()
		s.forget(c, true)
		s.options.Metrics.connections.Dec()
	})
}

// forget removes a session that has ended. served says whether it counts in s.served.
func (s *Server) forget(c *session, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
	if served {
		s.giveBack(&c.caller.place)
	} else {
		s.refused--
	}
}

func (s *Server) isDraining() bool { return s.accepting.Err() != nil }

// Admit reserves memory for a frame that another transport is about to read, and waits up to FrameTimeout for
// it. The caller calls release when the frame is done. A frame of up to smallFrameMax bytes needs no
// reservation. The error is for the client if no memory was free within FrameTimeout; otherwise it is ctx's.
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

// Answer executes one frame in the protocol of c, for transports other than TCP. It calls send with the reply
// once everything in the reply is durable. The caller limits the frame's size. The reply is valid, and its
// memory reserved, until send returns. ErrBusy means that nothing was done. Any other error means that the
// exchange has failed or is stopping, or is ctx's; it is then unknown whether the frame was done. After an
// error, send was not called.
//
// If the server requires tokens, ctx must carry the client's grant (auth.WithGrant). Without one, or after
// its end, the frame is refused.
func (s *Server) Answer(ctx context.Context, c Codec, frame []byte, send func(reply []byte)) error {
	if s.aborted.Load() {
		return ErrAborted
	}
	grant := auth.GrantOf(ctx)
	if !s.accepts(grant) {
		send(c.AppendError(nil, "the token of this request has ended"))
		return nil
	}
	b := s.takeBatch(c)
	r := s.newReply(engine.Mark{}, time.Now())
	defer s.recycle(r)
	m := s.options.Metrics
	b.watch.Start()
	if err := s.hold(ctx, b, c.Memory(frame)); err != nil {
		s.discard(b)
		if errors.Is(err, errNoMemory) {
			s.options.Metrics.hit(limitMemory)
			send(c.AppendError(nil, textNoMemory(s.limits.Load().FrameTimeout)))
			return nil
		}
		return fmt.Errorf("session: wait for memory: %w", err)
	}
	b.sender = Caller{server: s, grant: grant}
	b.judge = b.sender.judge()
	b.add(frame, false)
	m.lap(&b.watch, stageDecode)
	if err := s.answer(ctx, b, r); err != nil {
		return err
	}
	m.lap(&r.watch, stageJournal)
	if s.aborted.Load() {
		return ErrAborted
	}
	send(r.bytes)
	m.answered(r)
	return nil
}

// answer executes the frame of a batch, releases the batch, and returns once the reply is durable.
func (s *Server) answer(ctx context.Context, b *batch, r *reply) error {
	var slot slot
	if !slot.take(s, b.commands) {
		s.discard(b)
		return ErrBusy
	}
	defer slot.giveBack()
	mark, err := s.execute(ctx, b)
	b.watch.Lap() // the exchange measures the stages that end here
	// The view is ready at about the time when the reply is durable. So a query of it is not refused for want
	// of a slot.
	if err == nil && b.recalls {
		b.answers.unavailable = !slot.takeLate()
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

// await waits until what m covers may be shown to clients. It returns at once for the zero mark. The error is
// the exchange's or ctx's.
func (s *Server) await(ctx context.Context, m engine.Mark) error {
	if m == (engine.Mark{}) {
		return nil
	}
	if err := s.exchange.Durable(ctx, m); err != nil {
		return fmt.Errorf("session: wait for record %d: %w", m.Seq, err)
	}
	return nil
}

// Shutdown ends the server in order: it accepts no new connections, executes and answers the frames that have
// arrived, tells each client that this was the last reply, and closes the connections. When ctx ends, it cuts
// off the remaining connections and returns ctx's error. No goroutine is left in either case.
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

// SetLimits changes the limits. Each must be above 0. Open connections stay, even if they are more than the
// new limit. The new IdleTimeout and FrameTimeout also hold for frames and idle times that have already
// begun, counted from their beginning. Replies that are being sent keep the old WriteTimeout.
func (s *Server) SetLimits(l Limits) {
	s.limits.Store(&l)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.rereadLimits()
	}
}

// Abort closes the listeners and all connections at once, without a last reply. Every call of Answer ends
// with ErrAborted or an error of the exchange. Replies that the kernel does not have by then are never sent.
// Abort does not wait: call Shutdown afterwards, which waits until no goroutine is left. It is for a machine
// that is no longer the leader.
func (s *Server) Abort() {
	s.aborted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.cutOff()
	}
	// Cancel the context only after the connections are closed: a session whose wait ends would otherwise
	// send that the exchange is stopping. No session can begin in between, because open needs mu.
	s.cutOff()
	for _, l := range s.listeners {
		l.Close()
	}
}
