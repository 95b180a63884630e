package journal

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is a journal together with its expected content.
type model struct {
	fs       *memFS
	j        *Journal
	options  Options
	sizes    map[uint64]int // size of each appended record
	promised uint64
}

func (m *model) reopen(t *rapid.T) {
	j, err := open(m.fs, memDir, m.options)
	require.NoError(t, err)
	m.j = j
	require.GreaterOrEqual(t, j.Synced(), m.promised)
	require.Equal(t, j.Synced(), j.Appended())
	m.promised = j.Synced()
}

// TestAnySequenceOfCallsKeepsTheRecords appends, waits, reads, deletes, closes and cuts the power in
// random order.
func TestAnySequenceOfCallsKeepsTheRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{fs: newMemFS(), sizes: map[uint64]int{}, options: Options{Version: newest,
			FirstSeq:        rapid.Uint64Range(1, 1<<60).Draw(t, "first"),
			SegmentBytes:    rapid.Int64Range(1, 2000).Draw(t, "segment"),
			PendingBytesMax: rapid.IntRange(1, 2000).Draw(t, "pending")}}
		m.reopen(t)
		defer func() { m.j.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				size := rapid.IntRange(30, 3000).Draw(t, "size")
				seq := m.j.Appended() + 1
				m.sizes[seq] = size
				got, err := m.j.Append(payload(seq, size))
				require.NoError(t, err)
				require.Equal(t, seq, got)
			},
			"wait": func(t *rapid.T) {
				m.promised = m.j.Appended()
				require.NoError(t, m.j.Wait(background, m.promised))
			},
			"remove": func(t *rapid.T) {
				require.NoError(t, m.j.RemoveBefore(rapid.Uint64Range(m.j.First(), m.promised+1).Draw(t, "before")))
			},
			"read": m.read,
			"close": func(t *rapid.T) {
				m.promised = m.j.Appended()
				require.NoError(t, m.j.Close())
				m.reopen(t)
				require.Equal(t, m.promised, m.j.Synced())
			},
			"power cut": func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				after := m.fs.afterPowerCut(rand.New(rand.NewPCG(seed, 0)))
				require.NoError(t, m.j.Close())
				m.fs = after
				m.reopen(t)
			},
		})
	})
}

// read reads from a random record up to the last synced one.
func (m *model) read(t *rapid.T) {
	first := rapid.Uint64Range(m.j.First(), m.promised+1).Draw(t, "from")
	r, err := m.j.NewReader(first)
	require.NoError(t, err)
	defer r.Close()
	next := first
	for {
		seq, b, ok, err := r.TryNext()
		require.NoError(t, err)
		if !ok {
			break
		}
		require.Equal(t, next, seq)
		require.Equal(t, payload(seq, m.sizes[seq]), b)
		next++
	}
	require.Greater(t, next, m.promised)
}
