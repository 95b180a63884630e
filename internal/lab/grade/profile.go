package grade

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/throughput"
)

// Profile is a teacher's configuration of a run. It does not change after it was read.
type Profile struct {
	Points  float64       // the highest possible score
	Time    time.Duration // limit of the run, from when the server is ready
	Frame   time.Duration // limit of a reply
	Case    time.Duration // limit of a case that sets none; the other cases' limits scale with it
	Seed    uint64
	Habits  dialect.Known
	Weights map[string]float64     // by group; every group has one
	Cases   map[string]CaseProfile // by case name
	Load    LoadProfile
}

// CaseProfile overrides settings of a case. A nil field keeps the case's own setting.
type CaseProfile struct {
	Points *float64 `toml:"points"`
	Hidden *bool    `toml:"hidden"`
}

// LoadProfile configures how the throughput is measured and scored.
type LoadProfile struct {
	Connections int           // 0 means throughput.ConnectionsUsual
	Duration    time.Duration // 0 means throughput.DurationUsual
	Steps       []throughput.Step
}

// TimeMax is the longest time that a profile may give a run.
const TimeMax = 24 * time.Hour

// Defaults and bounds of a profile's values. Times are in seconds.
const (
	pointsUsual = 100
	pointsMax   = 1_000_000
	timeUsual   = 180
	frameUsual  = float64(dialect.ReplyTime / time.Second)
	frameMin    = 0.1
	frameMax    = 60
	caseUsual   = 10
	caseMin     = 1
	caseMax     = 600
	seedUsual   = 1

	profileBytesMax    = 1 << 20
	loadConnectionsMax = 1000
	loadSecondsMax     = 60
	loadStepsMax       = 100
)

// profileFile is the TOML form of a profile.
type profileFile struct {
	Grade struct {
		Points float64 `toml:"points"`
		Time   float64 `toml:"time"`
		Frame  float64 `toml:"frame"`
		Case   float64 `toml:"case"`
		Seed   int64   `toml:"seed"`
	} `toml:"grade"`
	Habits struct {
		Account  string `toml:"account"`
		Length   string `toml:"length"`
		Bare     string `toml:"bare"`
		OneFrame string `toml:"oneframe"`
		Decimals string `toml:"decimals"`
	} `toml:"habits"`
	Weights map[string]float64     `toml:"weights"`
	Case    map[string]CaseProfile `toml:"case"`
	Load    struct {
		Connections int         `toml:"connections"`
		Seconds     float64     `toml:"seconds"`
		Points      [][]float64 `toml:"points"`
	} `toml:"load"`
}

// DefaultProfile returns the profile of an empty file.
func DefaultProfile() *Profile {
	p, err := ReadProfile(nil, nil)
	if err != nil {
		panic(fmt.Sprintf("grade: the default profile is invalid: %v", err))
	}
	return p
}

// ReadOptions returns the options of a run with the profile in a file and the cases in a directory. If a path is
// "", the built-in profile or cases are used. The error names the flag of grade and what is wrong with its file.
func ReadOptions(profile, cases string) (o Options, err error) {
	if o.Cases, err = script.Builtin(); err != nil {
		return o, err
	}
	if cases != "" {
		if o.Cases, err = script.Load(cases, o.Cases); err != nil {
			return o, fmt.Errorf("--cases %s: %w", cases, err)
		}
	}
	var text []byte
	if profile != "" {
		if text, err = os.ReadFile(profile); err != nil {
			return o, fmt.Errorf("--profile: %w", err)
		}
	}
	if o.Profile, err = ReadProfile(text, o.Cases); err != nil {
		return o, fmt.Errorf("--profile %s: %w", profile, err)
	}
	return o, nil
}

// ReadProfile reads a profile in TOML, which may name the given cases. The error names the first
// problem: an unknown key, group or case, or a value out of bounds.
func ReadProfile(text []byte, cases []*script.Case) (*Profile, error) {
	if len(text) > profileBytesMax {
		return nil, fmt.Errorf("the profile has %d bytes; at most %d are read", len(text), profileBytesMax)
	}
	var f profileFile
	f.Grade.Points, f.Grade.Time, f.Grade.Frame = pointsUsual, timeUsual, frameUsual
	f.Grade.Case, f.Grade.Seed = caseUsual, seedUsual
	found, err := toml.Decode(string(text), &f)
	if err != nil {
		return nil, err
	}
	if unknown := found.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("unknown key %s", unknown[0])
	}
	if err := f.check(cases); err != nil {
		return nil, err
	}
	return f.profile(), nil
}

// check returns an error that names the first invalid value.
func (f *profileFile) check(cases []*script.Case) error {
	type number struct {
		name              string
		value, least, top float64
	}
	numbers := []number{
		{"grade.points", f.Grade.Points, 1, pointsMax}, {"grade.time", f.Grade.Time, 1, TimeMax.Seconds()},
		{"grade.frame", f.Grade.Frame, frameMin, frameMax}, {"grade.case", f.Grade.Case, caseMin, caseMax},
		{"grade.seed", float64(f.Grade.Seed), 0, math.MaxInt64},
		{"load.connections", float64(f.Load.Connections), 0, loadConnectionsMax},
		{"load.seconds", f.Load.Seconds, 0, loadSecondsMax},
	}
	for group, weight := range f.Weights {
		if !slices.ContainsFunc(script.Groups, func(g script.Group) bool { return g.Name == group }) {
			return fmt.Errorf("weights.%s: no group of cases has this name", group)
		}
		numbers = append(numbers, number{"weights." + group, weight, 0, pointsMax})
	}
	for name, c := range f.Case {
		if !slices.ContainsFunc(cases, func(c *script.Case) bool { return c.Name == name }) {
			return fmt.Errorf("case.%q: no case has this name", name)
		}
		if c.Points != nil {
			numbers = append(numbers, number{fmt.Sprintf("case.%q.points", name), *c.Points, 0, pointsMax})
		}
	}
	for _, n := range numbers {
		if math.IsNaN(n.value) || n.value < n.least || n.value > n.top {
			return fmt.Errorf("%s = %v: must be from %v to %v", n.name, n.value, n.least, n.top)
		}
	}
	return f.checkWords()
}

// checkWords returns an error that names the first invalid habit, or the problem of load.points.
func (f *profileFile) checkWords() error {
	for _, h := range []struct {
		name, value string
		words       []string
	}{
		{"account", f.Habits.Account, []string{"auto", "id", "account"}},
		{"length", f.Habits.Length, []string{"auto", "lf", "crlf"}},
		{"bare", f.Habits.Bare, []string{"auto", "yes", "no"}},
		{"oneframe", f.Habits.OneFrame, []string{"auto", "yes", "no"}},
		{"decimals", f.Habits.Decimals, []string{"auto", "yes", "no"}},
	} {
		if h.value != "" && !slices.Contains(h.words, h.value) {
			return fmt.Errorf("habits.%s = %q: must be one of %s", h.name, h.value, strings.Join(h.words, ", "))
		}
	}
	if n := len(f.Load.Points); n > loadStepsMax {
		return fmt.Errorf("load.points has %d steps: must be at most %d", n, loadStepsMax)
	}
	share, points := 0.0, 0.0
	for i, step := range f.Load.Points {
		if len(step) != 2 || !(step[0] > share && step[0] < math.MaxFloat32) || !(step[1] > points && step[1] <= pointsMax) {
			return fmt.Errorf("load.points: step %d is %v: must be [share, points], both more than before", i+1, step)
		}
		share, points = step[0], step[1]
	}
	return nil
}

// profile converts a checked file to a Profile.
func (f *profileFile) profile() *Profile {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	p := &Profile{Points: f.Grade.Points, Time: seconds(f.Grade.Time), Frame: seconds(f.Grade.Frame),
		Case: seconds(f.Grade.Case), Seed: uint64(f.Grade.Seed), Habits: dialect.Known(f.Habits),
		Weights: map[string]float64{}, Cases: f.Case,
		Load: LoadProfile{Connections: f.Load.Connections, Duration: seconds(f.Load.Seconds)}}
	for _, g := range script.Groups {
		p.Weights[g.Name] = g.Weight
		if weight, ok := f.Weights[g.Name]; ok {
			p.Weights[g.Name] = weight
		}
	}
	for _, step := range f.Load.Points {
		p.Load.Steps = append(p.Load.Steps, throughput.Step{Share: step[0], Points: step[1]})
	}
	return p
}

// points returns the points of a case, relative to the other cases of its group.
func (p *Profile) points(c *script.Case) float64 {
	if of := p.Cases[c.Name].Points; of != nil {
		return *of
	}
	return c.Points
}

// hidden reports whether a case is hidden.
func (p *Profile) hidden(c *script.Case) bool {
	if of := p.Cases[c.Name].Hidden; of != nil {
		return *of
	}
	return c.Hidden
}

// limit returns the time limit of a case, scaled by the profile.
func (p *Profile) limit(c *script.Case) time.Duration {
	return time.Duration(float64(c.Time) * p.Case.Seconds() / caseUsual)
}

// excused lists the cases that are skipped if the profile declares a habit.
var excused = []struct {
	has   func(dialect.Known) bool
	cases []string
}{
	{func(k dialect.Known) bool { return k.Account == "account" },
		[]string{formGroup + "/" + string(dialect.AccountAttribute)}},
	{func(k dialect.Known) bool { return k.Bare == "yes" },
		[]string{formGroup + "/" + string(dialect.LengthLine), formGroup + "/" + string(dialect.Length)}},
	{func(k dialect.Known) bool { return k.OneFrame == "yes" },
		[]string{"frames/two-on-one-connection", "frames/pipelined"}},
	{func(k dialect.Known) bool { return k.Decimals == "no" }, []string{"money/fractions"}},
}

// excuses reports whether a case is skipped because of a habit that the profile declares.
func (p *Profile) excuses(c *script.Case) bool {
	for _, e := range excused {
		if e.has(p.Habits) && slices.Contains(e.cases, c.Name) {
			return true
		}
	}
	return false
}
