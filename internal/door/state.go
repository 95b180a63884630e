package door

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"outcry/internal/engine"
)

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
	recalls     *semaphore.Weighted // has recallsMax slots
	answering   *semaphore.Weighted // has answersMax slots
	slowed      waiters             // callers without a connection that wait for followers
	lateAnswers *semaphore.Weighted // has lateAnswersMax slots

	connectionRate atomic.Int64 // commands per second of a connection, 0 for no limit (SetRates)
	accountRate    atomic.Int64
	accounts       *accountRates
	payers         *payers

	ctx       context.Context // context of all sessions; ends when they are cut off
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
	unproved  list.List               // list of *place: served connections that have not authenticated yet, oldest first
}

// New returns a server that does not listen yet. End it with Shutdown.
func New(x Exchange, o Options) *Server {
	o.setDefaults()
	s := &Server{exchange: x, options: o, sessions: make(map[connection]struct{}), bearers: make(map[string]int),
		accounts: newAccountRates(), payers: newPayers(o.Followers), slowed: waiters{of: make(map[uint64]int)}}
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

// connection is a session as the server uses it. The server calls the methods from any goroutine; none waits.
type connection interface {
	drain()        // ends the session once what has already arrived is answered; the server must be draining
	cutOff()       // closes the connection at once
	rereadLimits() // makes the session use changed limits
}

// SetRates sets the limit of commands per second of a connection, which is read more slowly above it, and the
// limit of orders and creates per second of an account, whose commands are refused above it. 0 means no
// limit. It takes effect with the frames that are read next; a connection that is being slowed down is read
// again within a second. It may be called from any goroutine.
func (s *Server) SetRates(connection, account int) {
	s.connectionRate.Store(int64(connection))
	s.accountRate.Store(int64(account))
}

func (s *Server) isDraining() bool { return s.accepting.Err() != nil }

// Draining returns a channel that is closed when the server starts to shut down. Frames and requests that
// have arrived by then are still executed.
func (s *Server) Draining() <-chan struct{} { return s.accepting.Done() }

// Mark returns the mark of all that the caller has read so far by means other than Call. Such data may be
// shown once Durable returns nil for the mark.
func (s *Server) Mark() engine.Mark { return s.exchange.Mark() }

// Durable waits until all that the mark covers is durable, so may be shown to clients. It does not wait for
// the zero mark. The error is the exchange's, ErrAborted or ctx's.
func (s *Server) Durable(ctx context.Context, m engine.Mark) error {
	if err := s.await(ctx, m); err != nil {
		return err
	}
	if s.aborted.Load() {
		return ErrAborted
	}
	return nil
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

// ErrAborted is the error of Answer, Call and Wait after Abort was called.
var ErrAborted = errors.New("session: this machine no longer serves clients")
