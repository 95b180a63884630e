package websocket

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/process/trywrite"
)

// Close codes: those of RFC 6455, and our own from 4000 on.
const (
	CodeNormal       = 1000
	CodeGoingAway    = 1001 // the server stops
	CodeProtocol     = 1002
	CodeUnsupported  = 1003 // a binary message
	CodeInvalidText  = 1007 // not UTF-8
	CodeTooLarge     = 1009
	CodeUnauthorized = 4001 // token missing, wrong, revoked, ended
	CodeTooSlow      = 4008
)

// Bounds of a connection.
const (
	// MessageBytesMax is the largest message of a client, fragments together.
	MessageBytesMax = 64 << 10
	// WaitingBytesMax is how much may wait to be sent, besides what the kernel has: an answer waits for room, and an event
	// that finds none cuts the connection. Each waiting frame counts as its bytes and FrameCostBytes. The newest pong
	// and the close, of 127 bytes at the most, may wait besides.
	WaitingBytesMax = 1 << 20
	// FrameCostBytes is what a waiting frame counts as besides its bytes: a place in a queue that has grown, and what an
	// allocation is rounded up by. Without it a queue of the smallest frames would take many times WaitingBytesMax.
	FrameCostBytes = 80
	// ConflateBytes is how much may wait before a door should merge what can be merged (Slot).
	ConflateBytes = 256 << 10

	reasonBytesMax  = controlBytesMax - 2 // of a close
	readBufferBytes = 4 << 10
	keepBytes       = 16 << 10 // of memory for the next message
)

// What ends Read and Answer.
var (
	// ErrClosed says that the connection has ended, or is to be closed: nothing more is read or sent.
	ErrClosed = errors.New("socket: the connection is closed")
	// ErrDraining says that the server stops: what had arrived was read. The handler answers that, and returns.
	ErrDraining = errors.New("socket: the server stops")
)

// Conn is one WebSocket connection. Its handler alone calls Read; all other methods may be called from any goroutine,
// also when the connection has ended.
//
// What is to be sent waits in one queue, in the order of the calls. Nothing leaves before Flush (Answer flushes), so
// that the events of one step go to the kernel in one write. A goroutine writes while something waits, and none while
// nothing does.
type Conn struct {
	server *Server
	remote string
	reader // the handler's own

	heard atomic.Bool // a frame has come since the last ping
	paced bool        // it waits for its turn; guarded by the pacer's mu

	// mu guards what follows.
	mu       sync.Mutex
	conn     net.Conn         // nil before the handshake
	try      *trywrite.Writer // of the one who writes; nil if conn cannot be written to so
	moved    sync.Cond        // something was written, or the state has changed
	queue    queue
	pong     Frame  // to the newest ping that is not answered; the zero Frame if there is none
	waiting  int    // cost of pong, of the frames in queue, and of those that are being written
	taken    uint64 // bytes that the kernel took
	pingDue  bool
	writing  bool // write runs
	ending   bool // a close is sent or waits: nothing more is taken
	cut      bool // by Cut: slots make nothing more
	dropped  bool // what waited was: slots begin nothing more (Advance)
	reading  bool // the handler waits in Read
	draining bool // the server stops
	graced   bool // so the handler reads for drainGrace only
	lingers  bool // the handler has ended, and the client has until closeBy
	dead     bool // TCP is closed
	closeBy  time.Time
	slow     func() string
	timer    *time.Timer // of pings; then of the close
	pulse    pulse
}

// reader is what arrives.
type reader struct {
	in       *bufio.Reader
	message  []byte // that arrives, or that was returned
	returned bool
	inFrame  bool // frame is one whose payload arrives, of which got bytes are here
	frame    header
	got      int
	partial  bool // a message has begun with a frame that was not its last
	control  [controlBytesMax]byte
	refused  bool // what follows cannot be read
	closed   bool // the client's close has come
}

func newConn(s *Server, remote string) *Conn {
	c := &Conn{server: s, remote: remote}
	c.moved.L = &c.mu
	return c
}

// RemoteAddr returns the address of the client, as net/http has it.
func (c *Conn) RemoteAddr() string { return c.remote }

// OnSlow says what to call for the reason of CodeTooSlow when the connection is cut, a line of at most 123 bytes. It is
// called by a caller of Push, once, behind the last change of any Progress.
func (c *Conn) OnSlow(reason func() string) {
	c.mu.Lock()
	c.slow = reason
	c.mu.Unlock()
}

// Answer sends a frame, and waits for room if too much waits already: so it bounds what is read of a client that does
// not take its answers. It returns ErrClosed if the connection has ended.
func (c *Conn) Answer(f Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(f.Len()); err != nil {
		return err
	}
	c.push(item{frame: f})
	c.flush()
	return nil
}

// awaitRoom waits until an answer may wait. Its caller holds mu.
func (c *Conn) awaitRoom(bytes int) error {
	for !c.ending && !c.hasRoom(bytes) {
		c.flush()
		c.moved.Wait()
	}
	if c.ending {
		return ErrClosed
	}
	return nil
}

// Push queues a frame of which no reader may miss any, and does not wait: if too much waits, the connection is cut.
// When the frame is taken to be written p, if it is not nil, is set to n. It reports false if the connection has ended
// or is cut; callers need not look. Flush has it sent.
func (c *Conn) Push(f Frame, p *Progress, n uint64) bool {
	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		return false
	}
	if !c.hasRoom(f.Len()) {
		c.ending = true
		c.drop() // so that no Progress changes any more
		slow := c.slow
		c.mu.Unlock()
		c.cutSlow(slow)
		return false
	}
	c.push(item{frame: f, progress: p, n: n})
	c.mu.Unlock()
	return true
}

// hasRoom reports whether so much more may wait. What is larger than all the room waits alone. Its caller holds mu.
func (c *Conn) hasRoom(bytes int) bool {
	return c.waiting == 0 || c.waiting+costOf(bytes) <= WaitingBytesMax
}

// costOf returns what so many bytes that wait as one frame count as.
func costOf(bytes int) int { return bytes + FrameCostBytes }

// cost returns what a frame that waits counts as: nothing of the zero Frame, which a slot has.
func (f Frame) cost() int {
	if f.bytes == nil {
		return 0
	}
	return costOf(f.Len())
}

// push queues a frame. Its caller holds mu.
func (c *Conn) push(i item) {
	c.queue.push(i)
	c.waiting += i.frame.cost()
}

// setPong has a pong sent before all that waits, in the place of one that waits still: only the newest ping has to be
// answered (RFC 6455, section 5.5.3). The zero Frame is none. Its caller holds mu.
func (c *Conn) setPong(f Frame) {
	c.waiting += f.cost() - c.pong.cost()
	c.pong = f
}

// drop has nothing wait any more, as the connection is cut or has ended. Its caller holds mu.
func (c *Conn) drop() {
	for i, ok := c.queue.pop(); ok; i, ok = c.queue.pop() {
		c.waiting -= i.frame.cost()
	}
	c.setPong(Frame{})
	c.pingDue, c.dropped = false, true
}

// Waiting returns what waits to be sent, as WaitingBytesMax counts it.
func (c *Conn) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// Flush has sent what waits. It does not wait for that.
func (c *Conn) Flush() {
	c.mu.Lock()
	c.flush()
	c.mu.Unlock()
}

// Ended reports whether the connection has ended, or is to be closed.
func (c *Conn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}
