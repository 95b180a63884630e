package twin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTranscriptsHoldForTheTwin: what the transcripts want was written by hand
// from the protocol; the twin was written from the protocol as well.
func TestTranscriptsHoldForTheTwin(t *testing.T) {
	all, err := Transcripts()
	require.NoError(t, err)
	require.Greater(t, len(all), 15)
	steps := 0
	for _, transcript := range all {
		x := New()
		for i, step := range transcript.Steps {
			if step.Raw {
				continue // frames are not the twin's
			}
			steps++
			got := Normalize(x.Do(step.Send, 1519348326))
			require.Equal(t, step.Want, got, "%s, step %d: %.300s", transcript.Name, i+1, step.Send)
			require.NoError(t, x.Check(), "%s, step %d", transcript.Name, i+1)
		}
	}
	require.Greater(t, steps, 90)
}

// TestRandomSessionsAddUp runs the generator against the twin alone: cash and
// shares are conserved, and the session is worth running: most kinds of answer
// come up.
func TestRandomSessionsAddUp(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	x, g := New(), NewGenerator(seed, 4, 20)
	var replies strings.Builder
	for now := int64(1); g.Commands() < 5000; now++ {
		reply := x.Do(g.Frame(), now)
		g.Observe(reply)
		replies.Write(reply)
		require.NoError(t, x.Check())
	}
	for _, part := range []string{"<opened", "<executed", "<open ", "<canceled id", "<canceled shares", "<created sym", "insufficient funds",
		"insufficient shares", "nothing is open", "not your order", "malformed", "bad account"} {
		require.Greater(t, strings.Count(replies.String(), part), 3, part)
	}
}

func TestTheSameSeedMakesTheSameSession(t *testing.T) {
	run := func() string {
		x, g := New(), NewGenerator(9, 3, 5)
		all := ""
		for range 200 {
			frame := g.Frame()
			reply := x.Do(frame, 1)
			g.Observe(reply)
			all += string(frame) + string(reply)
		}
		return all
	}
	require.Equal(t, run(), run())
}
