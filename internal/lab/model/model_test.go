package model

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// TestTranscriptsHoldForTheModel runs the transcripts against the model. The expected replies were
// written by hand from the protocol; the model was written from the protocol as well.
func TestTranscriptsHoldForTheModel(t *testing.T) {
	all, err := Transcripts()
	require.NoError(t, err)
	require.Greater(t, len(all), 25)
	steps := 0
	for _, transcript := range all {
		x := New()
		for i, step := range transcript.Steps {
			if step.Raw {
				continue // the model does not implement frames
			}
			steps++
			got := Normalize(x.Do(step.Send, 1519348326))
			require.Equal(t, step.Want, got, "%s, step %d: %.300s", transcript.Name, i+1, step.Send)
			require.NoError(t, x.Check(), "%s, step %d", transcript.Name, i+1)
		}
	}
	require.Greater(t, steps, 130)
}

// TestRandomSessionsAddUp runs the generator against the model alone. It checks that cash and shares are
// conserved and that the session is useful: every kind of answer occurs, and most requests are executed.
func TestRandomSessionsAddUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	replies := session(t, seed, NewGenerator(seed, 4, 20))
	for _, part := range []string{"<created id", "<created sym", "<opened", "<open ", "<executed", "<status",
		"<canceled id", "<canceled shares",
		"account exists", "no such order", "not your order", "nothing is open", "insufficient funds", "insufficient shares",
		"malformed", "bad account", "bad symbol, amount or limit"} {
		require.Contains(t, replies, part, "seed %d", seed)
	}
	for _, name := range []string{"sym", "amount", "limit", "ref"} {
		opened := regexp.MustCompile(`<opened[^>]* ` + name + `="`)
		require.True(t, opened.MatchString(replies), "the generator sends no order with a %s, seed %d", name, seed)
	}
	refused := strings.Count(replies, "<error")
	require.Greater(t, strings.Count(replies, "<opened"), refused, "seed %d", seed)
	require.Greater(t, refused, 200, "seed %d", seed)
	require.Greater(t, strings.Count(replies, "<canceled id"), 100, "seed %d", seed)
}

// session checks the exchange after budget.Of(checked) of every checked frames: a check is slow, because it reads
// the whole history.
const checked = 6

// session returns the model's replies to a generator's frames, on a connection that occasionally ends.
func session(t *testing.T, seed uint64, g *Generator) string {
	x := New()
	c := x.Connect()
	var all strings.Builder
	for now := int64(1); g.Commands() < 5000; now++ {
		reply := c.Do(g.Frame(), now)
		g.Observe(reply)
		all.Write(reply)
		if now%100 == 0 {
			c.Close(now)
			c = x.Connect()
		}
		if now%checked < int64(budget.Of(checked)) {
			require.NoError(t, x.Check(), "seed %d, after %d commands", seed, g.Commands())
		}
	}
	require.NoError(t, x.Check(), "seed %d", seed)
	return all.String()
}

// TestInstructedSessionsAddUp does the same as TestRandomSessionsAddUp for the whole protocol.
func TestInstructedSessionsAddUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	replies := session(t, seed, NewGenerator(seed, 4, 6).Instruct())
	for more := seed + 1; more < seed+5 && len(unsaid(replies)) > 0; more++ { // rare answers may need more sessions
		replies += session(t, more, NewGenerator(more, 4, 6).Instruct())
	}
	require.Empty(t, unsaid(replies), "seed %d", seed)
	refused, amended := strings.Count(replies, "<error"), strings.Count(replies, "<amended")
	require.Greater(t, 2*(strings.Count(replies, "<opened")+amended), refused, "seed %d", seed)
	require.Greater(t, amended, 100, "seed %d", seed)
}

// unsaid returns the patterns that an instructed session should produce and that are missing from
// replies.
func unsaid(replies string) (patterns []string) {
	want := []string{`<amended id="[0-9]+" by`, `<amended ref="[^"]*" id="[0-9]+" by`,
		`<amended id="[0-9]+" (amount|limit|newref|report)`, `<reduced `,
		`<opened[^>]*><open `, `<opened[^>]*><canceled `, `<opened[^>]*><executed `, `<replaced `, `<canceled-all `,
		`<cancel-after `, `<account id=`, `<position `, `<orders><order `, `<orders/>`, `<fills><fill `, `<session `,
		`post="yes" cod|post="yes" open`, "insufficient funds", "insufficient shares", "multiple of the tick",
		"multiple of the lot",
		"cannot be filled", "would execute", "no opposite", "executed already", "the other side", "ref used",
		"another tick or lot", "bad amount", "bad newref", "bad value", "bad instruction"}
	for _, name := range childAttributes["order"] {
		want = append(want, `<opened[^>]* `+name+`="`)
	}
	for _, mode := range []string{"newest", "oldest", "both"} {
		want = append(want, `<opened[^>]* stp="`+mode+`"[^>]* report="full"[^>]*><canceled`)
	}
	for _, pattern := range want {
		if !regexp.MustCompile(pattern).MatchString(replies) {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
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
