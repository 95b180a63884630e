package grade

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/throughput"
)

func TestAProfileThatSaysNothingIsTheUsual(t *testing.T) {
	p := DefaultProfile()
	require.Equal(t, 100.0, p.Points)
	require.Equal(t, 180*time.Second, p.Time)
	require.Equal(t, dialect.ReplyTime, p.Frame)
	require.Equal(t, 10*time.Second, p.Case)
	require.EqualValues(t, 1, p.Seed)
	require.Zero(t, p.Habits)
	for _, g := range script.Groups {
		require.Equal(t, g.Weight, p.Weights[g.Name])
	}
}

func TestAProfileSaysWhatATeacherWants(t *testing.T) {
	cases := named("money/fractions", "orders/in-order", "create/account")
	cases[2].Hidden = true
	p, err := ReadProfile([]byte(`
[grade]
points = 50
time = 60
frame = 1.5
case = 20
seed = 7
[habits]
account = "account"
length = "crlf"
bare = "yes"
oneframe = "no"
decimals = "auto"
[weights]
money = 20
durability = 0
[case."money/fractions"]
points = 0
[case."orders/in-order"]
hidden = true
[case."create/account"]
hidden = false
points = 2.5
[load]
connections = 4
seconds = 2
points = [[0.1, 1], [0.25, 3]]
`), cases)
	require.NoError(t, err)
	require.Equal(t, dialect.Known{Account: "account", Length: "crlf", Bare: "yes", OneFrame: "no", Decimals: "auto"},
		p.Habits)
	require.Equal(t, []any{50.0, time.Minute, 1500 * time.Millisecond, 20 * time.Second, uint64(7)},
		[]any{p.Points, p.Time, p.Frame, p.Case, p.Seed})
	require.Equal(t, []any{20.0, 0.0, 24.0}, []any{p.Weights["money"], p.Weights["durability"], p.Weights["matching"]})
	require.Equal(t, []any{0.0, 1.0, 2.5}, []any{p.points(cases[0]), p.points(cases[1]), p.points(cases[2])})
	require.Equal(t, []any{false, true, false}, []any{p.hidden(cases[0]), p.hidden(cases[1]), p.hidden(cases[2])})
	steps := []throughput.Step{{Share: 0.1, Points: 1}, {Share: 0.25, Points: 3}}
	require.Equal(t, LoadProfile{4, 2 * time.Second, steps}, p.Load)
	require.Equal(t, 20*time.Second, p.limit(cases[0]), "a case that says nothing")
	require.Equal(t, time.Minute, p.limit(&script.Case{Time: 30 * time.Second}))
}

func TestAProfileThatIsWrongIsRefusedByName(t *testing.T) {
	cases := named("money/fractions")
	for text, wrong := range map[string]string{
		"[grade]\npionts = 100":                    "unknown key grade.pionts",
		"[grad]\npoints = 100":                     "unknown key grad",
		"points = 100":                             "unknown key points",
		"[case.\"money/fractions\"]\nweight = 1":   `unknown key case."money/fractions".weight`,
		"[case.\"money/fraction\"]\npoints = 1":    `case."money/fraction": no case has this name`,
		"[weights]\nmatch = 1":                     "weights.match: no group of cases has this name",
		"[weights]\nmoney = -1":                    "weights.money = -1: must be from 0 to 1e+06",
		"[weights]\nmoney = nan":                   "weights.money = NaN: must be",
		"[weights]\nmoney = inf":                   "weights.money = +Inf: must be",
		"[grade]\ntime = 0":                        "grade.time = 0: must be from 1 to 86400",
		"[grade]\nframe = 0.01":                    "grade.frame = 0.01: must be from 0.1 to 60",
		"[grade]\nseed = -1":                       "grade.seed = -1: must be from 0",
		"[grade]\npoints = \"100\"":                "points",
		"[grade":                                   "line 1",
		"[case.\"money/fractions\"]\npoints = -2":  `case."money/fractions".points = -2: must be`,
		"[habits]\naccount = \"ID\"":               `habits.account = "ID": must be one of auto, id, account`,
		"[habits]\nbare = true":                    "bare",
		"[load]\nconnections = 5000":               "load.connections = 5000: must be from 0 to 1000",
		"[load]\npoints = [[0.1, 1], [0.1, 2]]":    "load.points: step 2 is [0.1 2]",
		"[load]\npoints = [[0.1]]":                 "load.points: step 1 is [0.1]",
		"[load]\npoints = [[nan, 1]]":              "load.points: step 1 is [NaN 1]",
		string(make([]byte, profileBytesMax+1)):    "at most 1048576",
		"[grade]\npoints = 1\n[grade]\npoints = 2": "grade",
	} {
		p, err := ReadProfile([]byte(text), cases)
		require.ErrorContains(t, err, wrong, "%.60s", text)
		require.Nil(t, p)
	}
}

// FuzzProfile checks that any file is either a valid profile or an error.
func FuzzProfile(f *testing.F) {
	f.Add([]byte("[grade]\npoints = 50\n[weights]\nmoney = 2"))
	f.Add([]byte("[load]\npoints = [[0.1, 1]]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadProfile(text, nil)
		require.True(t, (p == nil) != (err == nil))
		if p != nil {
			require.LessOrEqual(t, p.Time, TimeMax)
			require.Positive(t, p.Frame)
		}
	})
}
