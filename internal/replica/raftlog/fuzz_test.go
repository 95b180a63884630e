package raftlog

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/core"
)

// FuzzRecord reads arbitrary bytes as a record. Items that are read encode to the same bytes again,
// and a start accepts whatever a log accepts.
func FuzzRecord(f *testing.F) {
	good := appendItem(nil, item{kind: kindSelf, self: core.Identity{1}})
	good = appendItem(good, item{kind: kindMark, mark: *mark(4, 2), last: 6})
	good = appendItem(good, item{kind: kindHeard, heard: core.Member{ID: 3, Identity: core.Identity{3}}})
	good = appendItem(good, item{kind: kindHard, hard: hard(2, 1, 4)})
	// This item repeats an entry that the mark covers.
	covered := appendItem(bytes.Clone(good), item{kind: kindAgain, entry: entry(4, 2, 10)})
	covered = appendItem(covered, item{kind: kindAgain, entry: entry(6, 2, 0)})
	good = appendItem(good, item{kind: kindAgain, entry: entry(5, 2, 10)})
	good = appendItem(good, item{kind: kindAgain, entry: entry(6, 2, 0)})
	good = appendItem(good, item{kind: kindEntry, entry: entry(6, 3, 3)})
	f.Add([]byte(nil))
	f.Add(good)
	f.Add(covered)
	f.Add(good[:len(good)-1])
	f.Add([]byte{byte(kindMark), 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		err := items(b, func(it item) error {
			again = appendItem(again, it)
			return nil
		})
		require.True(t, bytes.HasPrefix(b, again))
		if err == nil {
			require.Equal(t, len(b), len(again))
		}
		s := newState()
		if s.applyRecord(b, place{1, 0}) != nil || s.check() != nil {
			return
		}
		d := s.durable()
		require.NotZero(t, d.Self)
		for i, e := range d.Entries {
			require.Equal(t, d.Mark.Index+1+uint64(i), e.GetIndex())
		}
		if d.Hard != nil {
			require.GreaterOrEqual(t, d.Hard.GetCommit(), d.Mark.Index)
		}
	})
}
