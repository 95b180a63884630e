package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/target"
)

// Times of a run.
const (
	askAgain = time.Second     // after a server that did not answer was asked once
	waitMore = 3 * time.Second // for a server that cannot be started anew
	stopTime = 5 * time.Second // that what is played has to end, after the time or the run is over
)

// ErrNothingAccepts means that the server never accepted a connection.
var ErrNothingAccepts = errors.New("nothing accepts a connection")

// Options say what Run grades, and how.
type Options struct {
	Target  target.Target
	Cases   []*script.Case // as script.Builtin returns them; Run puts them into order
	Profile *Profile       // nil is DefaultProfile
	Load    bool           // the group load is played too; it is in any case if it has a weight
	// Progress is called before each case, by one goroutine at a time; nil is for nobody.
	Progress func(Progress)
}

// Progress says how far a run is.
type Progress struct {
	Done, Failed, Total int    // cases
	Case                string // that is played now
}

// driver is how the server is talked to: wire, or that of a test. It is used by one goroutine.
type driver interface {
	// probe finds out how the server speaks. The error says that it answers nothing.
	probe(ctx context.Context) (dialect.Habits, error)
	play(ctx context.Context, c *script.Case) script.Outcome
	// ask returns nil if the server answers a frame, whatever it says.
	ask(ctx context.Context) error
	load(ctx context.Context) script.Outcome
}

// runner is a run.
type runner struct {
	o      Options
	p      *Profile
	cases  []*script.Case // all, in the order of the result
	order  []*script.Case // those that are played, in this order
	driver driver
	begun  time.Time // when the server was ready

	mu       sync.Mutex // guards what follows: a run may have to be written before its last case ends
	outcomes map[*script.Case]played
	now      *script.Case // that is played, or was last; nil while the server is probed
	remarks  map[dialect.Form]dialect.Remark
	habits   dialect.Habits
	salt     string // of the accounts
	dead     string // why nothing is played any more: what a case says that was not run; "" as long as it is
	restarts int
	failed   int
}

// Run starts the target, plays the cases against it, and closes it. What was not played when ctx or the
// time ended says so in the result. The error is ErrNothingAccepts, with why; that the target cannot be
// closed; or target.ErrNotTried, and only then there is no result. If ctx ended it is nil.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := newRunner(o)
	r.driver = newWire(r)
	return r.run(ctx)
}

// newRunner returns a run that has no driver.
func newRunner(o Options) *runner {
	r := &runner{o: o, p: o.Profile, cases: slices.Clone(o.Cases), outcomes: map[*script.Case]played{},
		remarks: map[dialect.Form]dialect.Remark{}}
	if r.p == nil {
		r.p = DefaultProfile()
	}
	if o.Load || r.p.Weights[loadGroup] > 0 {
		r.cases = append(r.cases, loadCase)
	}
	r.order = order(r.cases)
	return r
}

// order returns the cases that are played as they are: those that risk nothing first, then those that
// do, since they may bring the server down, then those that kill it, then the load.
func order(cases []*script.Case) []*script.Case {
	group := func(c *script.Case) int {
		return slices.IndexFunc(script.Groups, func(g script.Group) bool { return g.Name == c.Group })
	}
	last := func(c *script.Case) int { return slices.Index([]string{durabilityGroup, loadGroup}, c.Group) }
	played := slices.DeleteFunc(slices.Clone(cases), func(c *script.Case) bool { return c.Group == formGroup })
	slices.SortStableFunc(played, func(a, b *script.Case) int {
		return cmp.Or(last(a)-last(b), a.Risk-b.Risk, group(a)-group(b))
	})
	return played
}

// run is Run.
func (r *runner) run(ctx context.Context) (*Result, error) {
	err := r.o.Target.Start(ctx)
	r.begun = time.Now()
	switch {
	case errors.Is(err, target.ErrNotTried):
		return nil, errors.Join(err, r.o.Target.Close())
	case err != nil && ctx.Err() != nil:
		r.dead, err = reason(ctx), nil
	case err != nil:
		r.dead = fmt.Sprintf("Not run: %v.", ErrNothingAccepts)
		err = fmt.Errorf("%w: %w", ErrNothingAccepts, err)
	default:
		limited, cancel := context.WithTimeoutCause(ctx, r.p.Time, errNoTime)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.playAll(limited)
		}()
		select {
		case <-done:
		case <-limited.Done():
			select {
			case <-done:
			case <-time.After(stopTime): // it is left behind: the result must not wait for it
			}
		}
		r.conclude(limited)
	}
	result := r.result()
	if closed := r.o.Target.Close(); closed != nil {
		err = errors.Join(err, closed)
	}
	return result, err
}

// errNoTime is why the context of a run ends when its time is over.
var errNoTime = errors.New("no time is left")

// reason returns what a case says that was not run since ctx ended.
func reason(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errNoTime) {
		return "Not run: no time was left for it."
	}
	return "Not run: the run was stopped before."
}

// conclude says of what was not played that nothing is played any more.
func (r *runner) conclude(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead == "" && ctx.Err() != nil {
		r.dead = reason(ctx)
	}
}

// playAll plays all cases in their order.
func (r *runner) playAll(ctx context.Context) {
	habits, err := r.driver.probe(ctx)
	r.mu.Lock()
	r.habits = habits
	if err != nil && ctx.Err() == nil {
		r.dead = fmt.Sprintf("Not run: the server answers nothing. To the first frames it %s.", brief(err))
	}
	r.mu.Unlock()
	left := time.Duration(0) // of the group's time
	for i, c := range r.order {
		if i == 0 || r.order[i-1].Group != c.Group {
			left = r.allot(r.order[i:])
		}
		took, more := r.play(ctx, c, left)
		if left -= took; !more {
			return
		}
	}
}

// brief returns an error without "the server" in front.
func brief(err error) string { return strings.TrimPrefix(err.Error(), "the server ") }

// allot returns how much of what is left of the run's time the group of the first of the cases has for
// its own: as much as its cases may take of what all may take.
func (r *runner) allot(cases []*script.Case) time.Duration {
	own, all := 0.0, 0.0
	for _, c := range cases {
		limit := r.p.limit(c).Seconds()
		if all += limit; c.Group == cases[0].Group {
			own += limit
		}
	}
	return time.Duration(float64(r.p.Time-time.Since(r.begun)) * own / all)
}

// limit returns how long a case may take if its group has so much left. Half of the run's time is for
// all cases alike, so that one which answers at once can pass in a group that has used up its own.
func (r *runner) limit(c *script.Case, left time.Duration) time.Duration {
	return max(min(r.p.limit(c), left), r.p.Time/time.Duration(2*len(r.order))).Round(time.Millisecond)
}

// play plays a case, and has the server back if it is gone, which is not of the time that it took. more
// reports whether there may be a next one.
func (r *runner) play(ctx context.Context, c *script.Case, left time.Duration) (took time.Duration, more bool) {
	r.mu.Lock()
	dead, progress := r.dead, Progress{len(r.outcomes), r.failed, len(r.order), c.Name}
	r.mu.Unlock()
	if dead != "" || ctx.Err() != nil {
		return 0, false
	}
	if r.p.excuses(c) {
		r.record(c, excuse, 0)
		return 0, true
	}
	if r.o.Progress != nil {
		r.o.Progress(progress)
	}
	r.mu.Lock()
	r.now = c
	r.mu.Unlock()
	began, timed := time.Now(), *c
	timed.Time = r.limit(c, left)
	var outcome script.Outcome
	if c.Group == loadGroup {
		outcome = r.driver.load(ctx)
	} else {
		outcome = r.driver.play(ctx, &timed)
	}
	took = time.Since(began)
	if ctx.Err() != nil && outcome.Status != script.Pass {
		return took, false // it may be wrong for that alone
	}
	if outcome.Status == script.Fail && took >= timed.Time && timed.Time < r.p.limit(c) {
		outcome.Message += " It had no more, since others of its group took so long."
	}
	if outcome.Trouble || c.Risk > 0 || c.Group == durabilityGroup {
		r.revive(ctx, c, &outcome)
	}
	r.record(c, outcome, took)
	return took, true
}

// excuse is what a case comes to that the profile excuses.
var excuse = script.Outcome{Status: script.Skip, Message: "The profile says that servers need not do this."}

// revive finds out whether the server still answers after a case, and starts it anew if not. What brings
// a server down does not pass, whatever was answered. Nothing is played any more if it stays down.
func (r *runner) revive(ctx context.Context, c *script.Case, outcome *script.Outcome) {
	if r.answers(ctx) || ctx.Err() != nil {
		return
	}
	if outcome.Status == script.Pass {
		outcome.Status, outcome.Share = script.Fail, 0
		outcome.Message = "After this the server answered nothing any more."
	}
	back := false
	if r.o.Target.CanKill() {
		back = r.restart(ctx) == nil && r.answers(ctx)
		r.mu.Lock()
		r.restarts++
		r.mu.Unlock()
	} else if pause(ctx, waitMore) == nil {
		back = r.driver.ask(ctx) == nil
	}
	if !back && ctx.Err() == nil {
		r.mu.Lock()
		r.dead = fmt.Sprintf("Not run: the server answers nothing since %s.", r.nameOf(c))
		r.mu.Unlock()
	}
}

// answers asks the server once, and again after a moment.
func (r *runner) answers(ctx context.Context) bool {
	return r.driver.ask(ctx) == nil || pause(ctx, askAgain) == nil && r.driver.ask(ctx) == nil
}

// restart kills the server and starts it again.
func (r *runner) restart(ctx context.Context) error {
	if err := r.o.Target.Kill(ctx); err != nil {
		return err
	}
	return r.o.Target.Start(ctx)
}

// pause waits. The error is ctx's.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record keeps what a case came to.
func (r *runner) record(c *script.Case, o script.Outcome, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Status == script.Pass {
		o.Conversation = nil // it shows nothing
	}
	r.outcomes[c] = played{c, o, took.Seconds()}
	if o.Status == script.Fail || o.Status == script.Part {
		r.failed++
	}
}

// nameOf returns what other cases call a case: students may see them, and not a hidden one.
func (r *runner) nameOf(c *script.Case) string {
	if r.p.hidden(c) {
		return "a hidden case"
	}
	return c.Name
}

// seenHidden is all that is said of a fault of form that was seen in a hidden case.
const seenHidden = "Seen in a hidden case."

// remark keeps a fault of form: of several of one form that with the shortest conversation. Of what was seen
// in a hidden case it keeps only that, and only if nothing else has the form. It may be called from any
// goroutine.
func (r *runner) remark(remark dialect.Remark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, seen := r.remarks[remark.Form]
	hidden := r.now != nil && r.p.hidden(r.now)
	if hidden {
		remark = dialect.Remark{Form: remark.Form, Detail: seenHidden}
	}
	shorter := len(remark.Sent)+len(remark.Got) < len(before.Sent)+len(before.Got)
	if !seen || !hidden && (shorter || before.Detail == seenHidden) {
		r.remarks[remark.Form] = remark
	}
}

// notRun returns what a case comes to that was not played: nothing, unless it would not have counted.
// The caller holds mu.
func (r *runner) notRun(c *script.Case) script.Outcome {
	switch {
	case r.p.excuses(c):
		return excuse
	case c.Kills() && !r.o.Target.CanKill():
		return script.CannotKill
	}
	return script.Outcome{Status: script.Fail, Message: r.dead}
}

// result returns what the run has come to so far.
func (r *runner) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcomes := maps.Clone(r.outcomes)
	any := false
	for _, c := range r.order {
		of, ok := outcomes[c]
		if !ok {
			outcomes[c] = played{c: c, outcome: r.notRun(c)}
		}
		any = any || share(of.outcome) > 0
	}
	all := make([]played, 0, len(r.cases))
	for _, c := range r.cases {
		of := outcomes[c]
		if c.Group == formGroup {
			of = played{c: c, outcome: judgeForm(c, r.remarks, any)}
			if r.p.excuses(c) {
				of.outcome = excuse
			}
		}
		all = append(all, of)
	}
	result := &Result{Version: 1, Seconds: rounded(time.Since(r.begun).Seconds(), 3), Seed: r.p.Seed, Salt: r.salt,
		Target: r.o.Target.Name(), Habits: r.habits, Restarts: r.restarts, Log: r.o.Target.Log()}
	result.score(r.p, all)
	return result
}
