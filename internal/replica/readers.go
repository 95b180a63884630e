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

// readersName is the file in the data directory with the version of records that each other node
// can read, according to its last hello.
const readersName = raftlog.ReadersFile

// readersMax limits the nodes in the file, unless there are more members.
const readersMax = 64

// readers holds the version of records that each node can read. It is kept on disk so that a new
// leader need not wait for a voter that is down. The versions cannot become too high: a node that
// has started with a version has a journal of that version, which older programs refuse; and a node
// that has lost its journal has a new identity.
type readers struct {
	path string

	writing sync.Mutex // held while the file is written; locked before mu
	closed  bool       // guarded by writing

	// mu guards the field of. It is never held during disk I/O, since the replica's loop locks it.
	mu sync.Mutex
	of map[core.Identity]uint32
}

// readReaders reads the file. If the file is missing or damaged, the versions are learned from
// hellos again.
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

// version returns the version that a node reads, or 0 if it is unknown.
func (r *readers) version(node core.Identity) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[node]
}

// record records the version that a node reads and writes the file. When there are readersMax nodes,
// it removes those that are not members. It returns an error if the file cannot be written. After close it
// does nothing, since another process may use the directory then.
func (r *readers) record(node core.Identity, version uint32, members []core.Peer) error {
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

// set is note without writing the file; it returns the new content.
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

// close waits for a write in progress and prevents further ones.
func (r *readers) close() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.closed = true
}

// Readers returns nil if all voters, and all learners that were heard, can read the records of this program's version,
// as far as this node knows; from then on it refuses nodes that cannot. The error names the first node that reads only
// older versions or was never heard. Readers needs no lock. A leader calls it before it appends a record of that
// version.
func (r *Replica) Readers() error {
	s := r.state.now.Load()
	own := r.options.Hello.EventVersion
	for i := range s.Peers {
		p := &s.Peers[i]
		switch {
		case !p.Known || p.ID == s.Node || p.Reads >= own:
		case p.Reads != 0:
			return fmt.Errorf("node %d reads records only up to version %d, but version %d is needed: upgrade it",
				p.ID, p.Reads, own)
		case !p.Learner:
			return fmt.Errorf("node %d was not heard yet, so it may not read records of version %d", p.ID, own)
		}
	}
	return nil
}

// refuseOlder returns an error if the peer cannot read records that this program may have written.
// Voters are never refused, since no such records are written while a voter cannot read them. A
// node without a leader refuses no peer, since its list of voters may be out of date.
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
	return fmt.Errorf("%w: node %d (program %s) reads records only up to version %d, but this node (program %s) writes "+
		"version %d: upgrade it", peers.ErrVersion, h.Node, h.Version, h.EventVersion, own.Version, own.EventVersion)
}

// mayVote returns an error if the learner cannot read records that may be written. It may have been admitted while
// there was no leader.
func (r *Replica) mayVote(learner uint64) error {
	for _, m := range r.state.now.Load().Members {
		if reads, own := r.readers.version(m.Identity), r.options.Hello.EventVersion; m.ID == learner && reads != 0 &&
			reads < own {
			return fmt.Errorf("node %d reads records only up to version %d, but version %d is needed: upgrade it",
				learner, reads, own)
		}
	}
	return nil
}

// noteReader records the version of records that a peer reads; Status shows it.
func (r *Replica) noteReader(h *peers.Hello) {
	if err := r.readers.record(h.Self, h.EventVersion, r.state.now.Load().Members); err != nil {
		r.note(slog.LevelWarn, "the version of records that a peer reads was not saved", "peer", h.Node, "error", err)
	}
}
