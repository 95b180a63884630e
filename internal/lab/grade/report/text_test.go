package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
)

// The test compares the whole text: a server's bytes must reach the terminal only as harmless text.
func TestTheTextShowsEachFailure(t *testing.T) {
	const dead = "Not run: the server has not answered since limits/one."
	r := &grade.Result{Score: 61.538, Best: 100, Seconds: 4.26, Seed: 7, Restarts: 1, Log: "a\nb\x1b[2J\n",
		Habits: dialect.Habits{Bare: true},
		Groups: []grade.GroupResult{{Name: "matching", Points: 8, Max: 24}, {Name: "money", Points: 0, Max: 16},
			{Name: "limits", Points: 0, Max: 8}},
		Cases: []grade.CaseResult{
			{Name: "matching/one", Group: "matching", Status: script.Pass, Tries: 1, Points: 8, Max: 8},
			{
				Name:         "matching/two",
				Group:        "matching",
				Rule:         "transactions, Matching",
				Tell:         "The best price comes first.",
				Status:       script.Fail,
				Message:      "It must be 10.\x1b[31m",
				Conversation: []string{"> <a/>", "< <b/>\x07", "! <c/>"},
				Tries:        3,
				Max:          16,
				Hidden:       true,
			},
			{
				Name:    "matching/three",
				Group:   "matching",
				Status:  script.Skip,
				Message: "It needs a server that can be killed.",
			},
			{Name: "matching/four", Group: "matching", Rule: "Errors", Tell: "It is refused.", Status: script.Fail,
				Message: "It is not.", Tries: 1},
			{Name: "money/one", Group: "money", Status: script.Fail, Message: dead, Max: 8},
			{Name: "money/two", Group: "money", Status: script.Fail, Message: dead, Max: 8},
			{
				Name:    "limits/one",
				Group:   "limits",
				Rule:    "Errors",
				Tell:    "It goes on.",
				Status:  script.Part,
				Message: "Gone.",
				Tries:   1,
				Max:     4,
			},
			{Name: "limits/two", Group: "limits", Status: script.Fail, Message: dead, Max: 4},
		}}
	var b strings.Builder
	require.NoError(t, WriteText(&b, r))
	require.Equal(t, `found: replies have no length line
the server was restarted, since it did not answer: 1 times
  matching       8.00  of   24.00   1 of 3 cases pass, 1 not counted
  money          0.00  of   16.00   0 of 2 cases pass
  limits         0.00  of    8.00   0 of 2 cases pass
  sum            8.00  of   48.00   scaled to the score
  score         61.54  of  100.00   in 4.3 s, with seed 7

FAIL matching/two (0 of 16 points, hidden)
  PROTOCOL, transactions, Matching: The best price comes first.
  It must be 10.�[31m
    > <a/>
    < <b/>�
    ! <c/>

PART limits/one (0 of 4 points)
  PROTOCOL, Errors: It goes on.
  Gone.

FAIL matching/four (counts nothing)
  PROTOCOL, Errors: It is refused.
  It is not.

Not run: the server has not answered since limits/one.
   money (all 2), limits/two

not counted: It needs a server that can be killed.
   matching/three

the server printed at the end:
    a
    b�[2J
`, b.String())
}
