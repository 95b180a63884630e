package peers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	// smallBytesMax and entriesBytesMax limit the messages that wait for the two connections to a
	// peer. A larger message may wait if no other does. queueLenMax limits their number.
	smallBytesMax   = 4 << 20
	entriesBytesMax = 128 << 20 // more than Raft sends to one peer before it waits for answers
	queueLenMax     = 4096

	// writeBytes is the amount of data collected for one write, and the size of the pieces in which
	// a larger message is written. The peer has writeTimeout for each write.
	writeBytes = 256 << 10
)

// link is one of the two connections that this node makes to a peer, with its queue.
type link struct {
	n        *Net
	peer     *peer
	use      purpose
	bytesMax int
	wake     chan struct{} // holds a value if the queue may not be empty
	redial   chan struct{} // holds a value if the peer has just connected to this node
	buffer   []byte        // encoded messages; used only by run

	// mu guards the fields below.
	mu      sync.Mutex
	up      bool
	why     string // reason why the link is not up; "" before the first failed attempt
	removed bool   // the peer reports that this node was removed from the cluster
	queue   []*raftpb.Message
	bytes   int // size of the messages pushed but not written
	dropped uint64
}

func newLink(n *Net, p *peer, use purpose, bytesMax int) *link {
	return &link{n: n, peer: p, use: use, bytesMax: bytesMax,
		wake: make(chan struct{}, 1), redial: make(chan struct{}, 1)}
}

// poke sends a value to a channel with a buffer of one, unless it is full.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// weight returns an upper bound of the encoded size of a message.
func weight(m *raftpb.Message) int {
	const message, entry = 128, 40 // fields of fixed size, tags and lengths
	bytes := message + len(m.GetContext())
	for _, e := range m.GetEntries() {
		bytes += entry + len(e.GetData())
	}
	if s := m.GetSnapshot(); s != nil {
		bytes += proto.Size(s)
	}
	return bytes
}

// push adds a message to the queue. It returns false if there is no connection or no room.
func (l *link) push(m *raftpb.Message) bool {
	bytes := weight(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.bytes > 0 && l.bytes+bytes > l.bytesMax || len(l.queue) >= queueLenMax
	if !l.up || full || bytes > MessageBytesMax {
		l.dropped++
		return false
	}
	l.queue = append(l.queue, m)
	l.bytes += bytes
	poke(l.wake)
	return true
}

// drain returns the queued messages and empties the queue, which reuses the memory of spare.
func (l *link) drain(spare []*raftpb.Message) []*raftpb.Message {
	clear(spare)
	l.mu.Lock()
	defer l.mu.Unlock()
	queued := l.queue
	l.queue = spare[:0]
	return queued
}

// state returns statistics of the link.
func (l *link) state() PeerStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return PeerStats{l.up, l.why, l.removed, l.dropped}
}

// setWhy records the reason why there is no connection.
func (l *link) setWhy(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = err.Error()
	refusal, ok := errors.AsType[*RefusedError](err)
	l.removed = ok && refusal.Removed
}

// setUp records whether there is a connection, and drops queued messages.
func (l *link) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.why, l.removed = up, "", false
	l.dropped += uint64(len(l.queue))
	l.queue, l.bytes = nil, 0
}

// run connects and sends pushed messages until the peer's context ends.
func (l *link) run() {
	ctx := l.peer.ctx
	logged := "" // last kind of failure that was logged since the peer was connected
	for wait := backoffMin; ctx.Err() == nil; {
		conn, err := l.n.caller.open(ctx, l.peer.id, l.peer.address, l.use, nil)
		if err == nil {
			wait = backoffMin
			l.setUp(true)
			logged = ""
			l.say(slog.LevelInfo, "a peer is connected", nil)
			err = l.pump(ctx, conn)
			l.setUp(false)
			if ctx.Err() == nil {
				l.say(slog.LevelInfo, "a peer's connection has ended", err)
				if l.n.o.OnUnreachable != nil {
					l.n.o.OnUnreachable(l.peer.id)
				}
			}
		}
		l.setWhy(err)
		pause := wait/2 + rand.N(wait)
		wait = min(2*wait, backoffMax)
		if refusal := (*RefusedError)(nil); errors.As(err, &refusal) {
			l.n.complain(l.peer.id, refusal)
			pause = refusedRetry
		} else if ctx.Err() == nil {
			l.n.o.Log.Debug("a peer is not connected", "peer", l.peer.id, "for", l.use, "error", err)
			kind, level := "other", slog.LevelInfo
			switch {
			case errors.Is(err, syscall.ECONNREFUSED):
				kind = "nobody listens"
			case errors.Is(err, errTrust):
				kind, level = "trust", slog.LevelWarn // only an operator can correct it
			}
			if kind != logged {
				logged = kind
				l.say(level, "a peer cannot be reached and is retried", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		case <-l.redial:
			wait = backoffMin
		}
	}
}

// say logs a change of the connection. Only the connection for messages logs, since the one for
// entries breaks with it.
func (l *link) say(level slog.Level, what string, err error) {
	attrs := []any{"peer", l.peer.id, "address", l.peer.address}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	if l.use == forMessages {
		l.n.o.Log.Log(context.Background(), level, what, attrs...)
	}
}

// pump writes pushed messages until the connection breaks or ctx ends.
func (l *link) pump(ctx context.Context, conn *call) error {
	broken := make(chan error, 1)
	go func() { // the peer sends nothing on this connection, so a read returns only when it ends
		_, err := conn.Read(make([]byte, 1))
		if err == nil {
			err = errors.New("peers: unexpected data on a connection for messages")
		}
		broken <- err
	}()
	ended := false
	defer func() {
		_ = conn.Close()
		if !ended {
			<-broken
		}
		l.buffer = nil
	}()
	var batch []*raftpb.Message
	for {
		if batch = l.drain(batch); len(batch) > 0 {
			if err := l.write(conn, batch); err != nil {
				return err
			}
			continue
		}
		select {
		case <-l.wake:
		case err := <-broken:
			ended = true
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write writes messages, several per write if they are small.
func (l *link) write(conn net.Conn, batch []*raftpb.Message) error {
	charged := 0 // weight of the messages in the buffer
	for i, m := range batch {
		at := len(l.buffer)
		var err error
		if l.buffer, err = (proto.MarshalOptions{}).MarshalAppend(beginFrame(l.buffer), m); err != nil {
			return err
		}
		endFrame(l.buffer, at)
		charged += weight(m)
		if len(l.buffer) < writeBytes && i < len(batch)-1 {
			continue
		}
		if err := writeInTime(conn, l.buffer); err != nil {
			return err
		}
		l.mu.Lock()
		l.bytes -= charged
		l.mu.Unlock()
		charged, l.buffer = 0, l.buffer[:0]
		if cap(l.buffer) > keepBytesMax {
			l.buffer = nil
		}
	}
	return nil
}

// writeInTime writes b in pieces and gives the peer writeTimeout for each.
func writeInTime(conn net.Conn, b []byte) error {
	for len(b) > 0 {
		piece := b[:min(len(b), writeBytes)]
		if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := conn.Write(piece); err != nil {
			return err
		}
		b = b[len(piece):]
	}
	return nil
}
