package script

import (
	"context"
	"slices"
)

// verb is something that a line with | or ? does. docs/reference/CASES.md is made of the table.
type verb struct {
	name  string // with ? in front: a fact, "? cash"
	args  string // as the reference shows them: "N", "ACCOUNT DOLLARS"
	tells string // what it does, in a sentence
	// check returns what is wrong with its arguments, with {part} and the values of $ in them; nil as a
	// function if there are none.
	check func(args []string) error
	// run does it; s.args is like that too. Names stand in it as written: play.name has them. The error is a
	// *wrong if the server is, a *dialect.Broken if it does not answer, a *skipped if that cannot be tried on it.
	run func(ctx context.Context, p *play, s *Step) error
	// frame: a line with > and lines that count replies belong to it: at-once.
	frame bool
	// kills: it needs Player.Kill.
	kills bool
	// races: what connections do at the same moment, so that a case with it is first played with
	// play.orderly set, if its group is concurrency.
	races bool
	// untimed: it bounds its time itself, and none of it counts for the case's time.
	untimed bool
}

// verbs is the table. tape.go, legal.go, load.go and money.go have their own parts of it.
var verbs []*verb

// init, because a verb's function may itself look into the table.
func init() {
	verbs = slices.Concat(connectionVerbs, orderVerbs, tapeVerbs, moneyVerbs)
}

func verbNamed(name string) *verb {
	if i := slices.IndexFunc(verbs, func(v *verb) bool { return v.name == name }); i >= 0 {
		return verbs[i]
	}
	return nil
}
