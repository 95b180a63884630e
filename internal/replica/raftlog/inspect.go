package raftlog

import (
	"errors"
	"fmt"
	"io/fs"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/replica/core"
)

// Summary is the state of a log.
type Summary struct {
	Self core.Identity
	Mark core.Mark         // includes the cluster and its members at the mark
	Hard *raftpb.HardState // nil if no hard state was written
	Last uint64            // index of the last entry
	Term uint64            // term of the last entry
	Data int64             // size of the entries' data in bytes
}

// inspectTries is how often Inspect tries to read the log if a segment is deleted during the read.
const inspectTries = 5

// Inspect reads the log in dir. It takes no lock and changes nothing, so it may be called while the node runs. The
// error is ErrNone, journal.Scan's, or a *ContentError.
func Inspect(dir string) (Summary, error) {
	for try := 1; ; try++ {
		s, err := inspect(dir)
		if !errors.Is(err, fs.ErrNotExist) || try == inspectTries {
			return s, err
		}
	}
}

func inspect(dir string) (Summary, error) {
	there, err := journal.Exists(dir)
	if err != nil {
		return Summary{}, fmt.Errorf("raftlog: %w", err)
	}
	s, last := newState(), uint64(0)
	if there {
		err = journal.Scan(dir, Version, func(seq uint64, record []byte) error {
			last = seq
			if err := s.applyRecord(record, place{seq: seq}); err != nil {
				return &ContentError{Dir: dir, Seq: seq, Err: err}
			}
			return nil
		})
	}
	var content *ContentError
	switch {
	case errors.As(err, &content):
		return Summary{}, content
	case err != nil:
		return Summary{}, fmt.Errorf("raftlog: %w", err)
	case last == 0:
		return Summary{}, fmt.Errorf("%w in %s", ErrNone, dir)
	}
	if err := s.check(); err != nil {
		return Summary{}, &ContentError{Dir: dir, Seq: last, Err: err}
	}
	sum := Summary{Self: s.self, Mark: s.mark, Hard: s.hard, Last: s.last(), Term: s.mark.Term, Data: s.bytes}
	if n := len(s.entries); n > 0 {
		sum.Term = s.entries[n-1].GetTerm()
	}
	return sum, nil
}
