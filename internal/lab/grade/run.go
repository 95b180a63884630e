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
	askAgain = time.Second     // pause before a second request to a server that did not answer
	waitMore = 3 * time.Second // pause before the last request to a server that cannot be restarted
	stopTime = 5 * time.Second // how long the current case may take to end once the run is stopped or out of time
)

// ErrNothingAccepts means that the server never accepted a connection.
var ErrNothingAccepts = errors.New("nothing accepts a connection")

// Options configure Run.
type Options struct {
	Target  target.Target
	Cases   []*script.Case // as script.Builtin returns them; Run orders them
	Profile *Profile       // nil means DefaultProfile
	Load    bool           // also play the group load; it is always played if it has a weight
	// Progress is called before each case, by one goroutine at a time; may be nil.
	Progress func(Progress)
}

// Progress describes the progress of a run.
type Progress struct {
	Done, Failed, Total int    // numbers of cases
	Case                string // name of the case about to be played
}

// String returns the progress in words.
func (p Progress) String() string {
	return fmt.Sprintf("case %d of %d, %d failed: %s", p.Done+1, p.Total, p.Failed, p.Case)
}

// driver talks to the server: a wire, or a fake in tests. It is used by one goroutine.
type driver interface {
	// probe finds out the server's habits. It returns an error if the server answers nothing.
	probe(ctx context.Context) (dialect.Habits, error)
	play(ctx context.Context, c *script.Case) script.Outcome
	// ask returns nil if the server answers a frame, whatever the answer is.
	ask(ctx context.Context) error
	load(ctx context.Context) script.Outcome
}

// runner is one run with its state.
type runner struct {
	o      Options
	p      *Profile
	cases  []*script.Case // all cases, in the order of the result
	order  []*script.Case // the cases to play, in the order of play
	driver driver
	begun  time.Time // when the server was ready

	mu       sync.Mutex // guards the fields below: the result may be made while a case still runs
	outcomes map[*script.Case]played
	now      *script.Case // the case being played, or the last one; nil while the server is probed
	remarks  map[dialect.Form]dialect.Remark
	habits   dialect.Habits
	salt     string // part of all account ids
	dead     string // message of the cases that are not played any more; "" while cases are played
	restarts int
	failed   int
}

// Run starts the target, plays the cases against it, and closes it. If ctx or the profile's time ends first, the
// result marks the remaining cases as not run, and this is no error. The error wraps ErrNothingAccepts and its
// cause, an error of closing the target, or target.ErrNotTried. Only with ErrNotTried is the result nil.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := newRunner(o)
	r.driver = newWire(r)
	return r.run(ctx)
}

// newRunner returns a runner without a driver.
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

// order returns the cases to play, in the order of play: harmless ones first, then those that may bring the
// server down, then those that kill it, then the load. It omits the group form, which is judged from remarks.
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

// run implements Run with the runner's driver.
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
			case <-time.After(stopTime): // the goroutine is abandoned: the result must not wait for it
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

// errNoTime is the cause of a run's context once the run is out of time.
var errNoTime = errors.New("no time is left")

// reason returns the message of a case that was not run because ctx ended.
func reason(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errNoTime) {
		return "Not run: no time was left for it."
	}
	return "Not run: the run was stopped before."
}

// conclude sets dead if ctx has ended, so that the remaining cases have a message.
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
		r.dead = fmt.Sprintf("Not run: the server does not answer. To the first frames it %s.", brief(err))
	}
	r.mu.Unlock()
	left := time.Duration(0) // what is left of the current group's time
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

// brief returns the text of err without a leading "the server".
func brief(err error) string { return strings.TrimPrefix(err.Error(), "the server ") }

// allot returns how much of the run's remaining time the group of cases[0] gets: its share is the sum of its cases'
// limits divided by the sum of all given cases' limits.
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

// limit returns the time limit of a case whose group has this much time left. Half of the run's time is divided
// equally among all cases, so that a fast case can still pass after its group's time is used up.
func (r *runner) limit(c *script.Case, left time.Duration) time.Duration {
	return max(min(r.p.limit(c), left), r.p.Time/time.Duration(2*len(r.order))).Round(time.Millisecond)
}

// play plays a case, and then restarts the server if it is down. took is the time of the case without the restart.
// more reports whether the next case may be played.
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
		return took, false // the case may have failed only because ctx ended
	}
	if outcome.Status == script.Fail && took >= timed.Time && timed.Time < r.p.limit(c) {
		outcome.Message += " It had no more time, since other cases of its group took so long."
	}
	if outcome.Trouble || c.Risk > 0 || c.Group == durabilityGroup {
		r.revive(ctx, c, &outcome)
	}
	r.record(c, outcome, took)
	return took, true
}

// excuse is the outcome of a case that is skipped because of a habit that the profile declares.
var excuse = script.Outcome{Status: script.Skip, Message: "The profile says that servers need not do this."}

// revive checks whether the server still answers after a case, and restarts it if not. A case that brings the server
// down does not pass, regardless of the answers. If the server stays down, no more cases are played.
func (r *runner) revive(ctx context.Context, c *script.Case, outcome *script.Outcome) {
	if r.answers(ctx) || ctx.Err() != nil {
		return
	}
	if outcome.Status == script.Pass {
		outcome.Status, outcome.Share = script.Fail, 0
		outcome.Message = "After this the server no longer answered."
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
		r.dead = fmt.Sprintf("Not run: the server has not answered since %s.", r.nameOf(c))
		r.mu.Unlock()
	}
}

// answers reports whether the server answers a frame; it asks a second time after a pause.
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

// pause waits for d. The error is that of ctx, if it ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record keeps the outcome of a case.
func (r *runner) record(c *script.Case, o script.Outcome, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Status == script.Pass {
		o.Conversation = nil // the conversation is shown only for failures
	}
	r.outcomes[c] = played{c, o, took.Seconds()}
	if o.Status == script.Fail || o.Status == script.Part {
		r.failed++
	}
}

// nameOf returns the name of c for messages of other cases, which students may see. It does not reveal the name of
// a hidden case.
func (r *runner) nameOf(c *script.Case) string {
	if r.p.hidden(c) {
		return "a hidden case"
	}
	return c.Name
}

// seenHidden is the only detail given of a fault of form that was seen in a hidden case.
const seenHidden = "Seen in a hidden case."

// remark keeps one remark for each form, the one with the shortest conversation. A remark from a hidden case is kept
// only if there is no other of its form, and without its conversation and details. remark may be called from
// any goroutine.
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

// notRun returns the outcome of a case that was not played: a failure, unless the case would have been skipped.
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

// result returns the result so far; cases without an outcome count as not run.
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
