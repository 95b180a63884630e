package exchange

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestADecoderReadsWhatDecodeEventReads decodes several events with one Decoder.
func TestADecoderReadsWhatDecodeEventReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		for _, want := range rapid.SliceOfN(anyEvent(), 1, 20).Draw(t, "events") {
			b := AppendEvent(nil, &want)
			var e, again Event
			require.NoError(t, d.Decode(b, &e))
			clear(b) // the strings must not share its memory
			if len(e.Fills) == 0 {
				e.Fills = nil
			}
			require.Equal(t, want, e)
			require.ErrorIs(t, d.Decode(b, &again), ErrEvent)
		}
	})
}

// TestNamesStayWhatTheyAre reads more names than the cache has places: every name must be correct, also after
// another name has replaced it, and a name read twice in a row must not be copied.
func TestNamesStayWhatTheyAre(t *testing.T) {
	var n names
	var all, got []string
	for i := range 3 * len(n) {
		all = append(all, fmt.Sprint(2_000_000_000+i), fmt.Sprintf("SYM%d", i), strings.Repeat("x", i%256))
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	b := make([]byte, 256) // reused for all names, as a reader reuses its buffer
	for _, want := range all {
		got = append(got, n.get(b[:copy(b, want)]))
	}
	require.Equal(t, all, got)
	used := 0
	for _, s := range n {
		if s != "" {
			used++
		}
	}
	require.Greater(t, used, len(n)*9/10, "names are spread over the places")
	require.Zero(t, testing.AllocsPerRun(100, func() { n.get(b[:copy(b, all[0])]) }))
}
