package replica

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

const (
	// messagesMax and queueBytesMax limit the messages from peers that the loop has not handled
	// yet.
	messagesMax = 4096
	// requestsMax limits the requests that the loop has not handled yet; further callers wait.
	requestsMax = 16
)

// inbox collects the input of other goroutines for the loop.
type inbox struct {
	mu       sync.Mutex // guards the fields below
	messages []received
	bytes    int
	written  []*raftpb.Message // messages to this node itself whose write is synced; see core.Write.After
	applied  uint64
	fetched  []fetchOutcome
	missed   []uint64 // peers that may not have received the last messages
	may      bool     // the owner allows this node to campaign
	failure  error    // the reason to stop, if any
}

// received is a message from a peer with the identity in the hello of its connection.
type received struct {
	from    core.Identity
	message *raftpb.Message
}

// fetchOutcome is the result of a core.Fetch.
type fetchOutcome struct {
	fetch core.Fetch
	at    core.Position
	err   error
}

// nodeInputs are the inputs of core.Node that the replica calls.
type nodeInputs interface {
	Tick()
	Receive(from core.Identity, m *raftpb.Message)
	Heard(m core.Member, cluster core.Identity) error
	Written(after []*raftpb.Message)
	Applied(index uint64)
	JournalSynced(seq uint64)
	Fetched(f core.Fetch, at core.Position, err error)
	Unreachable(peer uint64)
}

// receive adds a message from a peer. Messages above the limits are dropped; Raft sends them again.
func (r *Replica) receive(from core.Identity, m *raftpb.Message) {
	n := messageBytes(m)
	in := &r.inbox
	in.mu.Lock()
	if len(in.messages) >= messagesMax || len(in.messages) > 0 && in.bytes+n > queueBytesMax {
		in.mu.Unlock()
		r.counts.dropped.Add(1)
		return
	}
	in.messages = append(in.messages, received{from, m})
	in.bytes += n
	in.mu.Unlock()
	wakeUp(r.wakeLoop)
}

// miss records that the peer may not have received the last messages.
func (in *inbox) miss(peer uint64) {
	if !slices.Contains(in.missed, peer) {
		in.missed = append(in.missed, peer)
	}
}

// update changes the inbox and wakes the loop.
func (r *Replica) update(change func(*inbox)) {
	r.inbox.mu.Lock()
	change(&r.inbox)
	r.inbox.mu.Unlock()
	wakeUp(r.wakeLoop)
}

// fail makes the loop stop with err, unless it already has an earlier error.
func (r *Replica) fail(err error) {
	r.update(func(in *inbox) {
		if in.failure == nil {
			in.failure = err
		}
	})
}

// handleInbox passes the contents of the inbox to the node. It returns the reason to stop, if any.
func (r *Replica) handleInbox() error {
	r.inbox.mu.Lock()
	in := inbox{messages: r.inbox.messages, written: r.inbox.written, applied: r.inbox.applied,
		fetched: r.inbox.fetched, missed: r.inbox.missed, may: r.inbox.may, failure: r.inbox.failure}
	r.inbox.messages, r.inbox.bytes, r.inbox.written = nil, 0, nil
	r.inbox.fetched, r.inbox.missed = nil, nil
	r.inbox.mu.Unlock()
	if in.failure != nil {
		return in.failure
	}
	if len(in.written) > 0 {
		r.node.Written(in.written)
	}
	if in.applied > r.loop.applied {
		r.loop.applied = in.applied
		r.node.Applied(in.applied)
	}
	for _, f := range in.fetched {
		r.node.Fetched(f.fetch, f.at, f.err)
	}
	for _, peer := range in.missed {
		r.node.Unreachable(peer)
	}
	if in.may != r.loop.ownerAllows {
		r.loop.ownerAllows = in.may
		r.campaign()
	}
	congested := r.congested()
	for _, m := range in.messages {
		if congested && makesWrites(m.message) {
			r.counts.dropped.Add(1)
			continue
		}
		r.node.Receive(m.from, m.message)
	}
	return nil
}

// congested reports whether a queue to a disk of this node is full.
func (r *Replica) congested() bool { return r.writes.full() || r.applies.full() }

// makesWrites reports whether a message makes a follower write to disk.
func makesWrites(m *raftpb.Message) bool {
	//exhaustive:ignore others write nothing, or only a little once a term
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgSnap, raftpb.MsgVote:
		return true
	}
	return false
}

// do makes the loop call f between two steps. It returns f's error, ctx's, or the reason why the
// loop has ended. After an error of ctx the loop may still call f.
func (r *Replica) do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case r.requests <- func() { done <- f() }:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.loopEnded:
		return r.loopError()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.loopEnded:
		return r.loopError()
	}
}

// loopError returns the reason why the loop has ended.
func (r *Replica) loopError() error {
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	if r.inbox.failure != nil {
		return r.inbox.failure
	}
	return ErrClosed
}

// messageBytes returns the approximate memory of a message.
func messageBytes(m *raftpb.Message) int {
	n := itemBytes
	for _, e := range m.GetEntries() {
		n += len(e.GetData())
	}
	if s := m.GetSnapshot(); s != nil {
		n += len(s.GetData())
	}
	return n
}
