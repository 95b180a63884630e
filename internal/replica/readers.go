package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"outcry/internal/replica/core"
	"outcry/internal/replica/peers"
	"outcry/internal/replica/raftlog"
)

// readersName is the file in the data directory that has which version of records other nodes
// read, as they last said.
const readersName = raftlog.ReadersFile

// readersMax bounds the nodes in it, unless more are members.
const readersMax = 64

// readers are the versions of records that nodes read. They are kept on disk so that a leader
// that has just begun need not wait for a voter that is down. That is no promise which could be
// broken: a node that has begun with a version has a journal of it, which older programs refuse;
// and one that has lost its journal has another identity.
type readers struct {
	path string

	writing sync.Mutex // held while the file is written; locked before mu
	closed  bool       // guarded by writing

	// mu guards of. It is never held while the disk is waited for: the replica's loop takes it.
	mu sync.Mutex
	of map[core.Identity]uint32
}

// readReaders reads the file. One that is lost or torn only means that nodes have to be heard.
func readReaders(data string) (*readers, error) {
	r := &readers{path: filepath.Join(data, readersName), of: make(map[core.Identity]uint32)}
	b, err := os.ReadFile(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if json.Unmarshal(b, &r.of) != nil {
		clear(r.of)
	}
	return r, nil
}

// version returns what a node reads, 0 if it is not known.
func (r *readers) version(node core.Identity) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[node]
}

// note keeps what a node reads; once there are readersMax, of others only what members do. An
// error is of the file. After close it does nothing: another process may then have the directory.
func (r *readers) note(node core.Identity, version uint32, members []core.Peer) error {
	if r.version(node) == version {
		return nil
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.closed {
		return nil
	}
	b, err := r.set(node, version, members)
	if err != nil {
		return err
	}
	next := r.path + ".tmp"
	if err := os.WriteFile(next, b, 0o640); err != nil {
		return err
	}
	return os.Rename(next, r.path)
}

// set is note without the file, whose new content it returns.
func (r *readers) set(node core.Identity, version uint32, members []core.Peer) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.of) >= readersMax {
		maps.DeleteFunc(r.of, func(other core.Identity, _ uint32) bool {
			return !slices.ContainsFunc(members, func(m core.Peer) bool { return m.Identity == other })
		})
	}
	r.of[node] = version
	return json.Marshal(r.of)
}

// close waits until the file is written, and ends that.
func (r *readers) close() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.closed = true
}

// Readers returns nil if every node that votes reads the records of this program's version, as
// far as this node was told; then none is let in any more that does not. The error names the
// first node that reads only older ones, or was never heard. A learner that was heard counts as
// well. It costs no lock, and is for a leader that is about to append a record of that version.
func (r *Replica) Readers() error {
	s := r.state.now.Load()
	own := r.options.Hello.EventVersion
	for i := range s.Peers {
		p := &s.Peers[i]
		switch {
		case !p.Known || p.ID == s.Node || p.Reads >= own:
		case p.Reads != 0:
			return fmt.Errorf("node %d reads records up to version %d, and this is for version %d: upgrade it",
				p.ID, p.Reads, own)
		case !p.Learner:
			return fmt.Errorf("node %d was not heard yet, and may not read records of version %d", p.ID, own)
		}
	}
	return nil
}

// refuseOlder returns why a node must not be let in that cannot read what this program may have
// written. A voter may: while there is one that is older, nothing is written that it cannot read.
// That of a node without a leader may be out of date, so it refuses nobody.
func (r *Replica) refuseOlder(s *Status, h *peers.Hello) error {
	own := &r.options.Hello
	if h.EventVersion >= own.EventVersion || s.Leader == 0 || s.Role == core.Stranger {
		return nil
	}
	for _, m := range s.Members {
		if m.ID == h.Node && !m.Learner {
			return nil
		}
	}
	return fmt.Errorf("%w: node %d (program %s) reads records up to version %d, and this node (program %s) writes %d: "+
		"upgrade it", peers.ErrVersion, h.Node, h.Version, h.EventVersion, own.Version, own.EventVersion)
}

// mayVote returns why a learner must not become a voter: it was let in while there was no leader, and cannot
// read what may be written.
func (r *Replica) mayVote(learner uint64) error {
	for _, m := range r.state.now.Load().Members {
		if reads, own := r.readers.version(m.Identity), r.options.Hello.EventVersion; m.ID == learner && reads != 0 &&
			reads < own {
			return fmt.Errorf("node %d reads records up to version %d, and this is for version %d: upgrade it",
				learner, reads, own)
		}
	}
	return nil
}

// noteReader keeps what version of records a peer reads, of which Status tells then.
func (r *Replica) noteReader(h *peers.Hello) {
	if err := r.readers.note(h.Self, h.EventVersion, r.state.now.Load().Members); err != nil {
		r.note(slog.LevelWarn, "what version of records a node reads is not written down", "peer", h.Node, "error", err)
	}
}
