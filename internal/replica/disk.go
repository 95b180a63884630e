package replica

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

// raftDir is the directory of Raft's log within the data directory.
const raftDir = "raft"

// disk is the interface of *raftlog.Log, which writes data/raft.
type disk interface {
	// Write writes all of writes in order and syncs them once. An error is final.
	Write(writes []*core.Write) error
	Close() error
}

// writeLog is the disk goroutine. It writes all queued writes with one sync, and then sends the
// messages that had to wait for the sync.
func (r *Replica) writeLog() {
	for {
		writes := r.writes.waitAll(r.life.Done())
		if writes == nil {
			return
		}
		r.watch.writing.Store(int64(r.now()) | 1)
		err := r.disk.Write(writes)
		r.watch.writing.Store(0)
		if err != nil {
			r.fail(fmt.Errorf("replica: data/raft: %w", err))
			return
		}
		for _, w := range writes {
			r.writes.done(writeBytes(w))
			r.after(w.After)
		}
	}
}

// after sends the messages that waited for a write. It passes those for this node to the loop.
func (r *Replica) after(messages []*raftpb.Message) {
	var own, others []*raftpb.Message
	for _, m := range messages {
		if m.GetTo() == r.options.Node {
			own = append(own, m)
		} else {
			others = append(others, m)
		}
	}
	r.send(others)
	if len(own) > 0 {
		r.update(func(in *inbox) { in.written = append(in.written, own...) })
	}
}

// writeBytes returns the approximate memory of a write.
func writeBytes(w *core.Write) int {
	n := 0
	for _, e := range w.Entries {
		n += len(e.GetData())
	}
	return n
}
