package peers

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"outcry/internal/replica/core"
)

// accept accepts connections until the Net is closed.
func (n *Net) accept() {
	for {
		conn, err := n.o.Listener.Accept()
		if err == nil {
			n.welcome(conn)
			continue
		}
		if n.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		n.o.Log.Debug("cannot accept a peer's connection", "error", err)
		select { // usually the process has no file descriptors left
		case <-n.ctx.Done():
		case <-time.After(acceptRetry):
		}
	}
}

// welcome starts to serve a new connection. If there are too many without an accepted hello, it
// closes the oldest.
func (n *Net) welcome(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		_ = conn.Close()
		return
	}
	if len(n.strangers) == strangersMax {
		_ = n.strangers[0].Close() // counted by the goroutine of that connection
		n.strangers = n.strangers[1:]
	}
	n.strangers = append(n.strangers, conn)
	n.work.Go(func() { n.meet(conn) })
}

// met removes a connection from the list of those whose hello was not accepted yet.
func (n *Net) met(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.strangers = slices.DeleteFunc(n.strangers, func(c net.Conn) bool { return c == conn })
}

// meet exchanges hellos on a connection and serves it.
func (n *Net) meet(raw net.Conn) {
	defer raw.Close()
	stop := context.AfterFunc(n.ctx, func() { _ = raw.Close() })
	defer stop()
	v := &visit{n: n, frames: frameReader{}}
	err := v.introduce(raw)
	n.met(raw)
	var refusal *RefusedError
	switch {
	case errors.As(err, &refusal):
		n.complain(refusal.Peer, refusal)
	case err != nil:
		n.strangersCut.Add(1)
		n.o.Log.Debug("closed a connection at the peers' port before a valid hello",
			"address", raw.RemoteAddr(), "error", err)
	default:
		v.serve()
	}
}

// visit is a connection made by another node.
type visit struct {
	n      *Net
	conn   net.Conn
	frames frameReader
	peer   *peer
	hello  opening
}

// introduce receives the opening and answers it. The error is a *RefusedError if either side
// refuses the other. Until both have accepted, nothing that the other side sent has an effect.
func (v *visit) introduce(raw net.Conn) error {
	if err := raw.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.n.ctx, helloTimeout)
	defer cancel()
	conn, leaf, err := v.n.o.Security.secure(ctx, raw, false)
	if err != nil {
		return err
	}
	v.conn, v.frames.r = conn, conn
	var begin [prefaceBytes]byte
	if _, err := io.ReadFull(conn, begin[:]); err != nil {
		return err
	}
	if err := checkPreface(begin[:]); err != nil {
		return err
	}
	if err := receiveJSON(&v.frames, &v.hello); err != nil {
		return err
	}
	own := v.n.hello()
	if err := v.admit(leaf); err != nil {
		_ = sendJSON(conn, nil, answer{Hello: own, Refused: reason(err), Removed: errors.Is(err, core.ErrRemoved)},
			helloTimeout) // best effort
		return &RefusedError{Peer: v.hello.Hello.Node, Reason: reason(err)}
	}
	if err := sendJSON(conn, nil, answer{Hello: own}, helloTimeout); err != nil {
		return err
	}
	var decision verdict
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	if err := receiveJSON(&v.frames, &decision); err != nil {
		return err
	}
	if decision.Refused != "" {
		return &RefusedError{Peer: v.hello.Hello.Node, ByPeer: true, Reason: decision.Refused}
	}
	return conn.SetDeadline(time.Time{})
}

// admit returns an error if the other side is refused.
func (v *visit) admit(leaf *x509.Certificate) error {
	from := v.hello.Hello.Node
	if v.hello.To != v.n.o.Node {
		return fmt.Errorf("%w: this is node %d, but node %d was called", ErrNumber, v.n.o.Node, v.hello.To)
	}
	v.n.mu.Lock()
	v.peer = v.n.peers[from]
	v.n.mu.Unlock()
	if v.peer == nil {
		return fmt.Errorf("%w: node %d is not a peer of node %d: it is neither in --peers nor in the cluster", ErrNumber,
			from, v.n.o.Node)
	}
	if err := v.n.o.Security.check(leaf, from, v.peer.address); err != nil {
		return err
	}
	if !v.hello.For.link() && !v.n.serves(v.hello.For) {
		return fmt.Errorf("peers: node %d does not serve %q", v.n.o.Node, v.hello.For)
	}
	return v.n.judge(v.hello.Hello)
}

// serve serves the connection until it ends.
func (v *visit) serve() {
	poke(v.peer.messages.redial)
	poke(v.peer.entries.redial)
	stop := context.AfterFunc(v.peer.ctx, func() { _ = v.conn.Close() })
	defer stop()
	if !v.hello.For.link() {
		v.serveRequest()
		return
	}
	n, use := v.n, v.hello.For
	n.mu.Lock()
	if old := v.peer.in[use]; old != nil {
		_ = old.Close() // the peer has made a new connection, so the old one is dead
	}
	v.peer.in[use] = v.conn
	n.mu.Unlock()
	err := v.receive()
	if errors.Is(err, errMisfit) {
		n.misfits.Add(1)
		n.o.Log.Warn("closed a peer's connection", "peer", v.peer.id, "error", err)
	}
	n.mu.Lock()
	if v.peer.in[use] == v.conn {
		delete(v.peer.in, use)
	}
	n.mu.Unlock()
}

// errMisfit is wrapped by errors about a message that the peer must not send.
var errMisfit = errors.New("peers: invalid message from this peer")

// receive passes messages to OnMessage until the connection ends.
func (v *visit) receive() error {
	v.frames.r = bufio.NewReaderSize(v.conn, readStep)
	for {
		content, err := v.frames.next(MessageBytesMax)
		if errors.Is(err, errFrame) {
			return fmt.Errorf("%w: %w", errMisfit, err)
		}
		if err != nil {
			return err
		}
		m := new(raftpb.Message)
		if err := proto.Unmarshal(content, m); err != nil {
			return fmt.Errorf("%w: %w", errMisfit, err)
		}
		if m.GetFrom() != v.peer.id || m.GetTo() != v.n.o.Node || !travels(m.GetType()) {
			return fmt.Errorf("%w: %v from %d to %d", errMisfit, m.GetType(), m.GetFrom(), m.GetTo())
		}
		v.n.o.OnMessage(v.hello.Hello.Self, m)
	}
}

// travels reports whether Raft sends messages of this type to other nodes. It does not send
// proposals, since only the leader makes them, for itself.
func travels(t raftpb.MessageType) bool {
	switch t {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgSnap, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp,
		raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow,
		raftpb.MsgTransferLeader, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp:
		return true
	case raftpb.MsgHup, raftpb.MsgBeat, raftpb.MsgProp, raftpb.MsgUnreachable, raftpb.MsgSnapStatus,
		raftpb.MsgCheckQuorum, raftpb.MsgStorageAppend, raftpb.MsgStorageAppendResp, raftpb.MsgStorageApply,
		raftpb.MsgStorageApplyResp, raftpb.MsgForgetLeader:
	}
	return false
}
