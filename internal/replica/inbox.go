package replica

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

const (
	// messagesMax and queueBytesMax bound what peers have sent and the loop has not taken.
	messagesMax = 4096
	// requestsMax bounds the requests that the loop has not taken; others wait.
	requestsMax = 16
)

// inbox is what other goroutines have for the loop.
type inbox struct {
	mu       sync.Mutex // guards what follows
	messages []received
	bytes    int
	written  []*raftpb.Message // After of what is written, for this node itself
	applied  uint64
	fetched  []fetchOutcome
	missed   []uint64 // peers that did not get what was sent
	may      bool     // the owner lets this node campaign
	failure  error    // why this node cannot go on
}

// received is a message of a peer, and whose it is by the hello of its connection.
type received struct {
	from    core.Identity
	message *raftpb.Message
}

// fetchOutcome is what came of a core.Fetch.
type fetchOutcome struct {
	fetch core.Fetch
	at    core.Position
	err   error
}

// nodeInputs is what the inbox needs of a core.Node.
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

// receive puts in what a peer has sent. More than the bounds is dropped: Raft sends it again.
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

// miss notes that a peer did not get what was sent.
func (in *inbox) miss(peer uint64) {
	if !slices.Contains(in.missed, peer) {
		in.missed = append(in.missed, peer)
	}
}

// tell changes the inbox, and has the loop look.
func (r *Replica) tell(change func(*inbox)) {
	r.inbox.mu.Lock()
	change(&r.inbox)
	r.inbox.mu.Unlock()
	wakeUp(r.wakeLoop)
}

// fail says that this node cannot go on. The first reason counts.
func (r *Replica) fail(err error) {
	r.tell(func(in *inbox) {
		if in.failure == nil {
			in.failure = err
		}
	})
}

// takeInbox gives the node what has come. The error says why it cannot go on.
func (r *Replica) takeInbox() error {
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
	if in.may != r.loop.may {
		r.loop.may = in.may
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

// congested reports whether a disk of this node is so far behind that it takes nothing new.
func (r *Replica) congested() bool { return r.writes.full() || r.applies.full() }

// makesWrites reports whether a message makes a follower write.
func makesWrites(m *raftpb.Message) bool {
	//exhaustive:ignore others write nothing, or only a little once a term
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgSnap, raftpb.MsgVote:
		return true
	}
	return false
}

// do has the loop call f between two steps, and returns its error, ctx's, or that of Err. f
// may yet be called after an error of ctx.
func (r *Replica) do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case r.requests <- func() { done <- f() }:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.loopEnded:
		return r.gone()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.loopEnded:
		return r.gone()
	}
}

// gone returns why the loop has ended.
func (r *Replica) gone() error {
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	if r.inbox.failure != nil {
		return r.inbox.failure
	}
	return ErrClosed
}

// messageBytes returns about how much memory a message takes.
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
