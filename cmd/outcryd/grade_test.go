package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/target"
	"outcry/internal/testing/budget"
)

// TestTheExchangeHasAllPointsAgain grades one server twice; the second run finds accounts, symbols and orders of
// the first run. TestOutcryHasAllPoints of cmd/outcry-lab also kills a server.
func TestTheExchangeHasAllPointsAgain(t *testing.T) {
	budget.SkipUnlessFull(t, "outcry-lab grade, of an exchange that it starts")
	flags, _ := dataFlags(t)
	_, addr := inProcess(t, flags...)
	cases, err := script.Builtin()
	require.NoError(t, err)
	for range 2 {
		to, err := target.Attached(addr)
		require.NoError(t, err)
		r, err := grade.Run(t.Context(), grade.Options{Target: to, Cases: cases})
		require.NoError(t, err)
		for _, c := range r.Cases {
			if c.Status == script.Fail || c.Status == script.Part {
				t.Errorf("%s %s: %s\n%q", c.Status, c.Name, c.Message, c.Conversation)
			}
		}
		require.InDelta(t, 100, r.Score, 1e-9)
	}
}
