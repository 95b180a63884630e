package grade

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/grade/script"
)

// The points of skipped cases are left out of their group, and a group in which all cases are skipped
// does not count.
func TestACaseIsWorthItsPartOfItsGroup(t *testing.T) {
	cases := named("matching/one", "matching/two", "matching/three", "money/one", "money/fractions", "durability/orders",
		"limits/one")
	cases[0].Points = 2
	all := []played{
		{c: cases[0], outcome: passed},
		{c: cases[1], outcome: script.Outcome{Status: script.Part, Share: 0.75, Tries: 3, Conversation: []string{"> <a/>"}}},
		{c: cases[2], outcome: script.Outcome{Status: script.Skip, Message: "why"}},
		{c: cases[3], outcome: script.Outcome{Status: script.Fail, Share: 1, Message: "wrong"}, seconds: 1.23456},
		{c: cases[4], outcome: passed},
		{c: cases[5], outcome: script.Outcome{Status: script.Skip}},
		{c: cases[6], outcome: passed},
	}
	p := DefaultProfile()
	none := 0.0
	p.Cases = map[string]CaseProfile{"limits/one": {Points: &none}}
	var r Result
	r.score(p, all)
	require.Equal(t, []GroupResult{{"matching", 22, 24}, {"money", 8, 16}, {"limits", 0, 0}, {"durability", 0, 0}},
		r.Groups)
	require.Equal(t, 75.0, r.Score, "30 of 40")
	type worth struct{ points, max float64 }
	got := map[string]worth{}
	for _, c := range r.Cases {
		got[c.Name] = worth{c.Points, c.Max}
		require.NotNil(t, c.Conversation, "it is a list in JSON")
	}
	require.Equal(t, map[string]worth{"matching/one": {16, 16}, "matching/two": {6, 8}, "matching/three": {},
		"money/one": {0, 8}, "money/fractions": {8, 8}, "durability/orders": {}, "limits/one": {}}, got)
	require.Equal(t, 1.235, r.Cases[3].Seconds)
	require.Equal(t, 3, r.Cases[1].Tries)
}

func TestAScoreHasTwoDecimals(t *testing.T) {
	cases := named("create/one", "create/two", "create/three")
	var r Result
	r.score(DefaultProfile(), []played{{c: cases[0], outcome: passed},
		{c: cases[1], outcome: script.Outcome{Status: script.Fail}}, {c: cases[2], outcome: passed}})
	require.Equal(t, 66.67, r.Score)
	require.Equal(t, 6.0, r.Groups[0].Points)
	r.score(DefaultProfile(), nil)
	require.NotNil(t, r.Cases)
}
