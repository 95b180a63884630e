package grade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/faulty"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/target"
)

// server is both a target and its driver, without a process or a connection.
type server struct {
	t         *testing.T
	canKill   bool
	startFail error
	startTime time.Duration
	// does has, by case name, what playing the case does to the server; cases without an entry pass.
	does map[string]func(ctx context.Context, s *server, c *script.Case) script.Outcome

	up     bool
	since  time.Time // when Start was first called
	played []string
	events []string // the calls, each with the seconds since the first Start
}

func (s *server) event(format string, args ...any) {
	s.events = append(s.events, fmt.Sprintf("%.1f ", time.Since(s.since).Seconds())+fmt.Sprintf(format, args...))
}

func (s *server) Name() string    { return "server" }
func (s *server) Addr() string    { return "nowhere:1" }
func (s *server) CanKill() bool   { return s.canKill }
func (s *server) First() net.Conn { return nil }
func (s *server) Log() string     { return "log" }

func (s *server) Start(ctx context.Context) error {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	time.Sleep(s.startTime)
	s.event("start")
	s.up = s.startFail == nil
	return s.startFail
}

func (s *server) Kill(context.Context) error {
	s.event("kill")
	s.up = false
	return nil
}

func (s *server) Close() error {
	s.event("close")
	return nil
}

func (s *server) probe(ctx context.Context) (dialect.Habits, error) {
	return dialect.Habits{OneFrame: true}, s.ask(ctx)
}

func (s *server) ask(context.Context) error {
	s.event("ask")
	if !s.up {
		return &dialect.Broken{Kind: dialect.Refused}
	}
	return nil
}

func (s *server) load(context.Context) script.Outcome {
	return script.Outcome{Status: script.Part, Share: 0.5, Tries: 1}
}

func (s *server) play(ctx context.Context, c *script.Case) script.Outcome {
	s.played = append(s.played, c.Name)
	if do := s.does[c.Name]; do != nil {
		return do(ctx, s, c)
	}
	if !s.up {
		return script.Outcome{Status: script.Fail, Message: "down", Tries: 1, Trouble: true}
	}
	return passed
}

var passed = script.Outcome{Status: script.Pass, Share: 1, Tries: 1}

// hangs lasts until the case's time is used up.
func hangs(ctx context.Context, _ *server, c *script.Case) script.Outcome {
	if pause(ctx, c.Time) != nil {
		return script.Outcome{Status: script.Fail, Message: "stopped", Tries: 1}
	}
	return script.Outcome{Status: script.Fail, Message: "no reply", Tries: 1, Trouble: true}
}

// crashes returns a function that brings the server down, and returns o as the case's outcome.
func crashes(o script.Outcome) func(context.Context, *server, *script.Case) script.Outcome {
	return func(_ context.Context, s *server, _ *script.Case) script.Outcome {
		s.up = false
		return o
	}
}

// named returns cases with these names; "name!3" has risk 3.
func named(names ...string) (all []*script.Case) {
	for _, name := range names {
		c := &script.Case{Points: 1, Time: 10 * time.Second}
		name, risk, _ := strings.Cut(name, "!")
		if risk != "" {
			c.Risk = int(risk[0] - '0')
		}
		c.Name = name
		c.Group, _, _ = strings.Cut(name, "/")
		all = append(all, c)
	}
	return all
}

// graded runs the cases against a server.
func graded(ctx context.Context, s *server, o Options) (*Result, error) {
	o.Target = s
	r := newRunner(o)
	r.driver = s
	return r.run(ctx)
}

// outcomes returns the status and message of each case, by name.
func outcomes(r *Result) map[string]string {
	all := map[string]string{}
	for _, c := range r.Cases {
		all[c.Name] = strings.TrimSpace(string(c.Status) + " " + c.Message)
	}
	return all
}

func TestCasesThatRiskNothingComeFirst(t *testing.T) {
	var names []string
	for _, c := range order(named("load/throughput", "durability/orders", "limits/doctype!3", "form/echo",
		"money/opening", "frames/in-two-writes!1", "durability/under-load!9", "frames/two", "create/account",
		"limits/huge!1", "create/again")) {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"frames/two", "create/account", "create/again", "money/opening", "frames/in-two-writes",
		"limits/huge", "limits/doctype", "durability/orders", "durability/under-load", "load/throughput"}, names)
}

func TestAServerThatPassesHasAllPoints(t *testing.T) {
	s := &server{t: t, canKill: true}
	var progress []Progress
	r, err := graded(t.Context(), s, Options{Cases: named("frames/two", "form/echo", "durability/orders"),
		Progress: func(p Progress) { progress = append(progress, p) }})
	require.NoError(t, err)
	require.Equal(t, 100.0, r.Score)
	require.Equal(t, []GroupResult{{"frames", 8, 8}, {"durability", 10, 10}, {"form", 4, 4}}, r.Groups)
	require.Equal(t, []Progress{{0, 0, 2, "frames/two"}, {1, 0, 2, "durability/orders"}}, progress)
	require.True(t, r.Habits.OneFrame)
	require.Equal(t, "log", r.Log)
	require.Contains(t, s.events[len(s.events)-1], "close")
}

// All cases of one group hang, and every other case is still played.
func TestAHangCostsItsOwnGroupTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, canKill: true, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{}}
		var names []string
		for _, group := range []string{"frames", "create", "matching", "durability"} {
			for i := range 20 {
				names = append(names, fmt.Sprintf("%s/%d", group, i))
			}
		}
		for _, name := range names[:40] {
			s.does[name] = hangs
		}
		r, err := graded(t.Context(), s, Options{Cases: named(names...)})
		require.NoError(t, err)
		require.Less(t, r.Seconds, 180.0)
		require.Equal(t, names, s.played)
		got := map[string]float64{}
		seconds := map[string]float64{}
		for _, g := range r.Groups {
			got[g.Name] = g.Points
		}
		for _, c := range r.Cases {
			seconds[c.Group] += c.Seconds
		}
		require.Equal(t, map[string]float64{"frames": 0, "create": 0, "matching": 24, "durability": 10}, got)
		require.Less(t, seconds["frames"], 70.0, "a quarter of the time, and a little for each case")
		require.Greater(t, seconds["frames"], 45.0)
	})
}

// A restart takes longer than the group's time, and the next case still has its own time.
func TestHavingAServerBackCostsItsGroupNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, canKill: true, startTime: 30 * time.Second,
			does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
				"frames/crash": crashes(script.Outcome{Status: script.Fail, Tries: 1, Trouble: true}),
				"frames/slow": func(_ context.Context, _ *server, c *script.Case) script.Outcome {
					require.Equal(t, 10*time.Second, c.Time)
					return passed
				}}}
		names := []string{"frames/crash", "frames/slow"}
		for i := range 16 {
			names = append(names, fmt.Sprintf("money/%d", i))
		}
		r, err := graded(t.Context(), s, Options{Cases: named(names...)})
		require.NoError(t, err)
		require.Equal(t, "pass", outcomes(r)["frames/slow"])
	})
}

// Every case hangs: the run ends in time, and the cases that were not played are marked as such.
func TestWhatHangsEverywhereEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{}}
		names := []string{"frames/0"}
		for i := range 30 {
			names = append(names, fmt.Sprintf("create/%d", i), fmt.Sprintf("money/%d", i))
		}
		for _, name := range names[1:] {
			s.does[name] = hangs
		}
		p := DefaultProfile()
		p.Time = 20 * time.Second
		r, err := graded(t.Context(), s, Options{Cases: named(names...), Profile: p})
		require.NoError(t, err)
		require.LessOrEqual(t, r.Seconds, 20.0)
		require.Equal(t, "pass", outcomes(r)["frames/0"])
		require.Equal(t, "fail Not run: no time was left for it.", outcomes(r)["money/29"])
	})
}

// A case ignores its context. The result is made without waiting for the case.
func TestAnUnendingCaseDoesNotKeepTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
			"create/never": func(context.Context, *server, *script.Case) script.Outcome { <-end; return passed }}}
		r, err := graded(t.Context(), s, Options{Cases: named("frames/0", "create/never", "money/0")})
		require.NoError(t, err)
		require.Equal(t, 185.0, r.Seconds)
		require.Equal(t, map[string]string{"frames/0": "pass", "create/never": "fail Not run: no time was left for it.",
			"money/0": "fail Not run: no time was left for it."}, outcomes(r))
		close(end)
	})
}

func TestAServerThatCannotBeKilledHasThreeSecondsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := script.Outcome{Status: script.Fail, Message: "no reply", Tries: 1, Trouble: true}
		s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
			"create/one": crashes(wrong)}}
		cases := named("frames/0", "create/one", "create/two", "money/0", "form/echo")
		r, err := graded(t.Context(), s, Options{Cases: cases})
		require.NoError(t, err)
		const why = "fail Not run: the server has not answered since create/one."
		require.Equal(t, map[string]string{"frames/0": "pass", "create/one": "fail no reply", "create/two": why,
			"money/0": why, "form/echo": "pass"}, outcomes(r))
		require.Equal(t, []string{"0.0 start", "0.0 ask", "0.0 ask", "1.0 ask", "4.0 ask", "4.0 close"}, s.events)
		require.Zero(t, r.Restarts)
	})
}

// A server that went down loses no points for cases that would have been skipped for any other server as well.
func TestWhatWouldNotBePlayedCostsNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := script.Outcome{Status: script.Fail, Message: "no reply", Tries: 1, Trouble: true}
		s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
			"create/one": crashes(wrong)}}
		kills, err := script.Parse("durability/x",
			[]byte("case durability/x\nrule 5\ntell It stays.\n| kill\n> <create/>\n< *\n"))
		require.NoError(t, err)
		p := DefaultProfile()
		p.Habits.Decimals = "no"
		r, err := graded(t.Context(), s, Options{Cases: append(named("frames/0", "create/one", "money/fractions"), kills),
			Profile: p})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"frames/0": "pass", "create/one": "fail no reply",
			"money/fractions": "skip The profile says that servers need not do this.",
			"durability/x":    "skip This needs a server that outcry starts itself, and can kill: --start or --compose."},
			outcomes(r))
	})
}

func TestAServerThatIsDownIsStartedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := script.Outcome{Status: script.Part, Share: 0.25, Tries: 1, Trouble: true}
		shown := script.Outcome{Status: script.Pass, Share: 1, Tries: 1, Conversation: []string{"> <!DOCTYPE a><a/>"}}
		s := &server{t: t, canKill: true, startTime: 2 * time.Second,
			does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
				"create/one": crashes(wrong), "limits/doctype": crashes(shown),
				"create/two": func(context.Context, *server, *script.Case) script.Outcome { return shown }}}
		r, err := graded(t.Context(), s, Options{Cases: named("create/one", "create/two", "limits/doctype!3")})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"create/one": "part", "create/two": "pass",
			"limits/doctype": "fail After this the server no longer answered."}, outcomes(r))
		require.Equal(t, []string{"2.0 start", "2.0 ask", "2.0 ask", "3.0 ask", "3.0 kill", "5.0 start", "5.0 ask",
			"5.0 ask", "6.0 ask", "6.0 kill", "8.0 start", "8.0 ask", "8.0 close"}, s.events)
		require.Equal(t, 2, r.Restarts)
		require.Equal(t, shown.Conversation, r.Cases[2].Conversation)
		require.Empty(t, r.Cases[1].Conversation)
		require.Equal(t, 9*(1.25/2), r.Groups[0].Points)
	})
}

func TestAServerThatDoesNotComeBackIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{t: t, canKill: true, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{
			"create/one": func(_ context.Context, s *server, _ *script.Case) script.Outcome {
				s.up, s.startFail = false, errors.New("exit status 1")
				return script.Outcome{Status: script.Fail, Tries: 1, Trouble: true}
			}}}
		r, err := graded(t.Context(), s, Options{Cases: named("create/one", "create/two")})
		require.NoError(t, err)
		require.Equal(t, "fail Not run: the server has not answered since create/one.", outcomes(r)["create/two"])
		require.Equal(t, []string{"create/one"}, s.played)
	})
}

func TestAServerThatAnswersNothingIsNotGraded(t *testing.T) {
	s := &server{t: t}
	r := newRunner(Options{Target: s, Cases: named("create/one", "form/echo")})
	r.driver = mute{s}
	result, err := r.run(t.Context())
	require.NoError(t, err)
	require.Zero(t, result.Score)
	require.Equal(t, map[string]string{
		"create/one": "fail Not run: the server does not answer. To the first frames it sent no whole reply in time.",
		"form/echo":  "fail No other case passes, so this cannot be judged."}, outcomes(result))
}

// mute is the driver of a server that answers nothing.
type mute struct{ *server }

func (mute) probe(context.Context) (dialect.Habits, error) {
	return dialect.Habits{}, &dialect.Broken{Kind: dialect.TimedOut}
}

func TestAServerThatDoesNotStartHasNoPoints(t *testing.T) {
	s := &server{t: t, canKill: true, startFail: errors.New("it ended")}
	r, err := graded(t.Context(), s, Options{Cases: named("create/one", "form/echo")})
	require.ErrorIs(t, err, ErrNothingAccepts)
	require.ErrorContains(t, err, "it ended")
	require.Zero(t, r.Score)
	require.Len(t, r.Cases, 2)
	require.Equal(t, "fail Not run: nothing accepts a connection.", outcomes(r)["create/one"])
	require.Equal(t, []string{"0.0 start", "0.0 close"}, s.events)
}

func TestAServerThatCannotBeTriedHasNoScore(t *testing.T) {
	s := &server{t: t, startFail: fmt.Errorf("%w: the port is taken", target.ErrNotTried)}
	r, err := graded(t.Context(), s, Options{Cases: named("create/one")})
	require.ErrorIs(t, err, target.ErrNotTried)
	require.NotErrorIs(t, err, ErrNothingAccepts)
	require.Nil(t, r)
	require.Equal(t, []string{"0.0 start", "0.0 close"}, s.events)
}

func TestARunThatIsStoppedHasWhatWasPlayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := &server{t: t, does: map[string]func(context.Context, *server, *script.Case) script.Outcome{"create/one": hangs}}
		time.AfterFunc(4*time.Second, stop)
		r, err := graded(ctx, s, Options{Cases: named("frames/0", "create/one", "create/two")})
		require.NoError(t, err)
		const why = "fail Not run: the run was stopped before."
		require.Equal(t, map[string]string{"frames/0": "pass", "create/one": why, "create/two": why}, outcomes(r))
		require.Equal(t, 4.0, r.Seconds)
	})
}

func TestFormIsWhatWasSeenAnywhere(t *testing.T) {
	s := &server{t: t}
	p := DefaultProfile()
	p.Habits.Bare, p.Habits.Decimals = "yes", "no"
	cases := named("create/one", "money/fractions", "form/echo", "form/length-line", "form/sign")
	r := newRunner(Options{Target: s, Cases: cases, Profile: p})
	r.driver = s
	long := dialect.Remark{Form: dialect.Echo, Detail: "long", Sent: "<create/>", Got: "<results>   </results>"}
	short := dialect.Remark{Form: dialect.Echo, Detail: "The attribute id is missing.", Sent: "<a/>", Got: "<b/>"}
	for _, remark := range []dialect.Remark{long, short, long, {Form: dialect.LengthLine}} {
		r.remark(remark)
	}
	result, err := r.run(t.Context())
	require.NoError(t, err)
	const excused = "skip The profile says that servers need not do this."
	require.Equal(t, map[string]string{"create/one": "pass", "money/fractions": excused, "form/length-line": excused,
		"form/echo": "fail The attribute id is missing.", "form/sign": "pass"}, outcomes(result))
	require.Equal(t, []GroupResult{{"create", 9, 9}, {"money", 0, 0}, {"form", 2, 4}}, result.Groups)
	require.Equal(t, 84.62, result.Score, "11 of 13")
	for _, c := range result.Cases {
		if c.Name == "form/echo" {
			require.Equal(t, []string{"> <a/>", "< <b/>"}, c.Conversation)
		}
	}
}

func TestTheLoadIsPlayedLastAndCountsWhereTheProfileSaysSo(t *testing.T) {
	cases := named("create/one")
	r, err := graded(t.Context(), &server{t: t}, Options{Cases: cases, Load: true})
	require.NoError(t, err)
	require.Equal(t, []GroupResult{{"create", 9, 9}, {"load", 0, 0}}, r.Groups)
	require.Equal(t, 100.0, r.Score)
	p, err := ReadProfile([]byte("[grade]\npoints = 10\n[weights]\nload = 9"), cases)
	require.NoError(t, err)
	r, err = graded(t.Context(), &server{t: t}, Options{Cases: cases, Profile: p})
	require.NoError(t, err)
	require.Equal(t, []GroupResult{{"create", 9, 9}, {"load", 4.5, 9}}, r.Groups)
	require.Equal(t, 7.5, r.Score)
	require.Equal(t, 10.0, r.Best)
}

// moving is a server that gets a new address with each start, as when Compose chooses the port.
type moving struct {
	journal string
	starts  int
	addr    string
	stop    func()
}

func (m *moving) Name() string  { return "moving" }
func (m *moving) Addr() string  { return m.addr }
func (m *moving) CanKill() bool { return true }
func (m *moving) Log() string   { return "" }
func (*moving) First() net.Conn { return nil }
func (m *moving) Close() error  { m.stop(); return nil }

func (m *moving) Start(context.Context) (err error) {
	m.starts++
	m.addr, m.stop, err = faulty.Start(faulty.Options{Journal: m.journal})
	return err
}

func (m *moving) Kill(context.Context) error { m.stop(); return nil }

// The run connects to the server's new address after a restart.
func TestAServerThatComesBackElsewhereIsFound(t *testing.T) {
	t.Parallel()
	all, err := script.Builtin()
	require.NoError(t, err)
	all = slices.DeleteFunc(all, func(c *script.Case) bool {
		return c.Group != durabilityGroup || c.Name == "durability/under-load" // under-load takes a second
	})
	require.Len(t, all, 4)
	m := &moving{journal: filepath.Join(t.TempDir(), "journal")}
	r, err := Run(t.Context(), Options{Target: m, Cases: all})
	require.NoError(t, err)
	for _, c := range r.Cases {
		require.Contains(t, []script.Status{script.Pass, script.Skip}, c.Status, "%+v", c)
	}
	require.Greater(t, m.starts, 4)
}
