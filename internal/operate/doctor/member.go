package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/replica/raftlog"
)

// replaceAdvice is the advice for a node that must not continue with its data.
const replaceAdvice = "leave it stopped, keep a copy of the directory, and put a new node in its place: " +
	"outcry cluster replace"

// checkMember checks the files that only a node of a cluster has. A single server gets no finding.
func (e *examination) checkMember() {
	broken, err := os.ReadFile(filepath.Join(e.Data, "BROKEN"))
	switch {
	case err == nil:
		e.found("cluster", Bad, replaceAdvice, "the history of this node is not that of its cluster: %s",
			strings.TrimSpace(string(broken)))
		return
	case !errors.Is(err, fs.ErrNotExist):
		e.unknown("cluster", err)
		return
	}
	s, err := raftlog.Inspect(filepath.Join(e.Data, "raft"))
	switch {
	case errors.Is(err, raftlog.ErrNone):
		if _, err := os.Lstat(filepath.Join(e.Data, raftlog.ClusterFile)); err == nil {
			e.found("cluster", Bad, replaceAdvice,
				"this node is a member of a cluster, and its log of votes and entries is gone")
		}
		return
	case isDamage(err):
		e.found("cluster", Bad, replaceAdvice, "%v", err)
		return
	case err != nil:
		e.unknown("cluster", err)
		return
	}
	j, err := journal.Peek(filepath.Join(e.Data, "journal"), exchange.EventVersion)
	if err == nil && j.Last < s.Mark.Seq {
		e.found("cluster", Bad, replaceAdvice, "the journal ends at record %d, and Raft's log begins after record %d",
			j.Last, s.Mark.Seq)
		return
	}
	e.found("cluster", OK, "", "node %v of cluster %v: members %d, term %d, entries %d to %d with %s", s.Self,
		s.Mark.Cluster, len(s.Mark.Members), max(s.Term, s.Hard.GetTerm()), s.Mark.Index+1, s.Last, bytesOf(uint64(s.Data)))
}

// isDamage reports whether an error says that a log contains something that no node has written.
func isDamage(err error) bool {
	_, damage := errors.AsType[*journal.DamageError](err)
	_, content := errors.AsType[*raftlog.ContentError](err)
	return damage || content
}
