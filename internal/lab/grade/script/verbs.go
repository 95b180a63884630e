package script

import (
	"context"
	"slices"
)

// verb is an action of a line with | or ?. docs/reference/CASES.md is generated from the table.
type verb struct {
	name  string // the name of a fact begins with ?: "? cash"
	args  string // the arguments as the reference shows them: "N", "ACCOUNT DOLLARS"
	tells string // a sentence for the reference that says what the verb does
	// check returns what is wrong with the arguments, in which {part} and $ values are already replaced. It is nil
	// if the verb has no arguments.
	check func(args []string) error
	// run executes the verb. {part} and $ values in s.args are replaced; names of accounts and symbols are as
	// written, and play.name returns their values. The error is a *wrong if the server is wrong, a *dialect.Broken if
	// it does not answer, or a *skipped if the verb cannot be tried on it.
	run func(ctx context.Context, p *play, s *Step) error
	// frame reports whether a line with > and lines that count replies belong to the verb: at-once.
	frame bool
	// kills reports whether the verb needs Player.Kill.
	kills bool
	// races reports whether the verb uses several connections at the same moment. A case of the group concurrency
	// with such a verb is first played with play.orderly set.
	races bool
	// untimed reports whether the verb limits its own time, which is not subtracted from the case's time.
	untimed bool
}

// verbs has all verbs. tape.go, legal.go, load.go and money.go define some of them.
var verbs []*verb

// init sets verbs, which cannot be initialized directly since a verb's function may use it.
func init() {
	verbs = slices.Concat(connectionVerbs, orderVerbs, tapeVerbs, moneyVerbs)
}

func verbNamed(name string) *verb {
	if i := slices.IndexFunc(verbs, func(v *verb) bool { return v.name == name }); i >= 0 {
		return verbs[i]
	}
	return nil
}
