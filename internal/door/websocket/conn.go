package websocket

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/process/queue"
	"outcry/internal/process/trywrite"
)

// Close codes: those of RFC 6455, and the exchange's own from 4000 on.
const (
	CodeNormal       = 1000
	CodeGoingAway    = 1001 // the server stops
	CodeProtocol     = 1002
	CodeUnsupported  = 1003 // the client sent a binary message
	CodeInvalidText  = 1007 // the client's text is not UTF-8
	CodeTooLarge     = 1009
	CodeUnauthorized = 4001 // the token is missing, wrong, revoked or expired
	CodeTooSlow      = 4008
)

// Bounds of a connection.
const (
	// MessageBytesMax is the maximum size of a client's message, the sum of its fragments.
	MessageBytesMax = 64 << 10
	// WaitingBytesMax bounds the bytes that wait to be sent, in addition to the kernel's buffer: an answer waits for
	// room, and an event for which there is no room cuts the connection. Each waiting frame counts as its bytes plus
	// FrameCostBytes. The newest pong and the close, together at most 127 bytes, may wait in addition.
	WaitingBytesMax = 1 << 20
	// FrameCostBytes is the cost of a waiting frame in addition to its bytes: its place in the queue, and the
	// rounding of its allocation. Without it, a queue of the smallest frames would need many times WaitingBytesMax.
	FrameCostBytes = 80
	// ConflateBytes is the number of waiting bytes above which a door should merge events that can be merged (Slot).
	ConflateBytes = 256 << 10

	reasonBytesMax  = controlBytesMax - 2 // reason of a close, without the code
	readBufferBytes = 4 << 10
	keepBytes       = 16 << 10 // memory kept for the next message
)

// Errors of Read and Answer.
var (
	// ErrClosed means that the connection has ended or is being closed: nothing more is read or sent.
	ErrClosed = errors.New("socket: the connection is closed")
	// ErrDraining means that the server stops, and that all messages that had arrived were read. The handler must
	// answer them and return.
	ErrDraining = errors.New("socket: the server stops")
)

// Conn is one WebSocket connection. Only its handler calls Read; all other methods may be called from any goroutine,
// also after the connection has ended.
//
// Frames to be sent wait in one queue, in the order of the calls. They are sent by Flush (Answer flushes), so that the
// events of one step go to the kernel in one write. A goroutine runs and writes only while frames wait.
type Conn struct {
	server *Server
	remote string
	reader // only the handler uses it

	heard atomic.Bool // a frame has arrived since the last ping
	paced bool        // the connection waits for its turn; guarded by the pacer's mu

	// mu guards the fields below.
	mu       sync.Mutex
	conn     net.Conn         // nil before the handshake
	try      *trywrite.Writer // only the current writer uses it; nil if conn has no writes that do not wait
	moved    sync.Cond        // signaled when bytes were written or the state has changed
	queue    queue.Queue[item]
	pong     Frame  // pong for the newest unanswered ping; the zero Frame if all are answered
	waiting  int    // total cost of pong, of the frames in queue, and of those being written
	taken    uint64 // bytes that the kernel has accepted
	pingDue  bool
	writing  bool // a writer runs
	ending   bool // a close is queued or sent: nothing more is queued
	cut      bool // Cut was called: slots make no more frames
	dropped  bool // the queue was dropped: Advance returns false
	reading  bool // the handler waits in Read
	draining bool // the server stops
	graced   bool // the server stops, and the read deadline has been set for drainGrace
	lingers  bool // the handler has returned, and the client has until closeBy
	dead     bool // TCP is closed
	closeBy  time.Time
	slow     func() string
	timer    *time.Timer // timer of the pings; after a close, timer of CloseTimeout
	pulse    pulse
}

// reader is the state of reading.
type reader struct {
	in       *bufio.Reader
	message  []byte // message that is arriving, or that Read has returned
	returned bool
	inFrame  bool // the payload of frame is arriving; got of its bytes have arrived
	frame    header
	got      int
	partial  bool // a message has begun, and its last frame has not arrived
	control  [controlBytesMax]byte
	refused  bool // the client broke the protocol, and the bytes that follow cannot be read
	closed   bool // the client's close has arrived
}

func newConn(s *Server, remote string) *Conn {
	c := &Conn{server: s, remote: remote}
	c.moved.L = &c.mu
	return c
}

// RemoteAddr returns the client's address in net/http's format.
func (c *Conn) RemoteAddr() string { return c.remote }

// OnSlow sets the function that returns the reason sent with CodeTooSlow, a line of at most 123 bytes. Push calls it
// once, when it cuts the connection. No Progress changes after that.
func (c *Conn) OnSlow(reason func() string) {
	c.mu.Lock()
	c.slow = reason
	c.mu.Unlock()
}

// Answer sends a frame. It waits while too much is queued, which bounds how many requests are read from a client that
// does not read its answers. It returns ErrClosed if the connection has ended.
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

// awaitRoom waits until an answer of this many bytes may be queued. Its caller holds mu.
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

// Push queues a frame that no reader may miss. It does not wait: if too much is queued, it cuts the connection. When a
// writer takes the frame, p is set to n unless p is nil. Push returns false if the connection has ended or is cut;
// callers need not check. Flush starts the sending.
func (c *Conn) Push(f Frame, p *Progress, n uint64) bool {
	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		return false
	}
	if !c.hasRoom(f.Len()) {
		c.ending = true
		c.drop() // from here on no Progress changes
		slow := c.slow
		c.mu.Unlock()
		c.cutSlow(slow)
		return false
	}
	c.push(item{frame: f, progress: p, n: n})
	c.mu.Unlock()
	return true
}

// hasRoom reports whether a frame of this many bytes may be queued. A frame larger than WaitingBytesMax may be queued
// only if nothing else waits. Its caller holds mu.
func (c *Conn) hasRoom(bytes int) bool {
	return c.waiting == 0 || c.waiting+costOf(bytes) <= WaitingBytesMax
}

// costOf returns the cost of a waiting frame of this many bytes.
func costOf(bytes int) int { return bytes + FrameCostBytes }

// cost returns the cost of a waiting frame, 0 for the zero Frame, which a slot has.
func (f Frame) cost() int {
	if f.bytes == nil {
		return 0
	}
	return costOf(f.Len())
}

// push queues an item. Its caller holds mu.
func (c *Conn) push(i item) {
	c.queue.Push(i)
	c.waiting += i.frame.cost()
}

// setPong sets the pong to be sent before the queue, and replaces one that was not sent yet: only the newest ping must
// be answered (RFC 6455, section 5.5.3). The zero Frame removes it. Its caller holds mu.
func (c *Conn) setPong(f Frame) {
	c.waiting += f.cost() - c.pong.cost()
	c.pong = f
}

// drop empties the queue of a connection that is cut or has ended. Its caller holds mu.
func (c *Conn) drop() {
	for i, ok := c.queue.Pop(); ok; i, ok = c.queue.Pop() {
		c.waiting -= i.frame.cost()
	}
	c.setPong(Frame{})
	c.pingDue, c.dropped = false, true
}

// Waiting returns the cost of all pending output, counted as for WaitingBytesMax.
func (c *Conn) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// Flush starts to send the queue, and does not wait until it is sent.
func (c *Conn) Flush() {
	c.mu.Lock()
	c.flush()
	c.mu.Unlock()
}

// Ended reports whether the connection has ended or is being closed.
func (c *Conn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending
}
