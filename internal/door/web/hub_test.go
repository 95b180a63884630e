package web

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestATopicEndsWithItsLastReader: symbols without readers cost no memory and no time.
func TestATopicEndsWithItsLastReader(t *testing.T) {
	made := newRounds(t)
	made.play()
	h := made.hub
	var readers []*reader
	for _, depth := range []int{5, 5, 7} {
		r, _, err := h.join(nil, 3, topicKey{made.Symbols[0].Name, depth, noCandles})
		require.NoError(t, err)
		readers = append(readers, r)
	}
	for i, left := range []int{2, 1, 0} {
		require.Len(t, h.topics, []int{2, 2, 1}[i])
		h.leave(readers[i])
		require.Equal(t, left, h.readers)
	}
	require.Empty(t, h.topics)
}

// TestABacklogHasTheNewestEvents: a backlog returns the newest events once each, in order.
func TestABacklogHasTheNewestEvents(t *testing.T) {
	for added, want := range map[int][]string{0: {"", ""}, 2: {"12", "2"}, 3: {"123", "23"}, 5: {"345", "345"},
		7: {"567", "567"}} {
		b := newBacklog(3)
		for n := range added {
			b.add([]byte{'1' + byte(n)})
		}
		for since, want := range want {
			require.Equal(t, want, string(bytes.Join(b.appendSince(nil, uint64(since)), nil)), "%d events, since %d", added,
				since)
		}
	}
}
