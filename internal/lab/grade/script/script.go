package script

import (
	"context"
	"time"

	"outcry/internal/lab/dialect"
)

// Groups are the groups of cases in order, with their weights. The form and load groups come last.
var Groups = []Group{
	{"frames", 8}, {"create", 9}, {"orders", 11}, {"matching", 24}, {"query-cancel", 12}, {"money", 16},
	{"concurrency", 8}, {"limits", 8}, {"durability", 10}, {"form", 4}, {"load", 0},
}

// Group is a group of cases.
type Group struct {
	Name   string
	Weight float64
}

// Case is one case. It does not change after it was read.
type Case struct {
	Name   string // with its group: matching/time-priority-sells
	Group  string
	Rule   string        // a heading of PROTOCOL.md, optionally with a heading below it: transactions, Matching
	Tell   string        // what must hold, in a sentence that a student understands
	Points float64       // relative to the other cases of the group; default 1
	Risk   int           // 0 to 9; cases that may bring a server down are played late
	Time   time.Duration // limit for playing it; default 10 s
	Hidden bool
	Parts  []string // values of {part}, one for each playing; nil without parts
	Steps  []Step   // empty in the group form, whose cases are judged by remarks
}

// Status is the outcome of a case.
type Status string

// The statuses.
const (
	Pass Status = "pass"
	Part Status = "part" // some of its parts passed
	Fail Status = "fail"
	Skip Status = "skip" // the case does not count
)

// Outcome is the result of playing a case.
type Outcome struct {
	Status  Status
	Share   float64 // share of the case's points: 1 for Pass, k/n if k of n parts passed
	Message string  // what was expected and what arrived, in a sentence or two, or why the case was skipped
	// Conversation has lines "> sent", "< got" and "! wanted", newest last. It is the shortest that shows the failure,
	// at most 4 kB. A pass has one only if the case has a risk.
	Conversation []string
	Tries        int // how often it was played: 1, or up to 3 for a case of concurrency that failed
	// Trouble means that the server hung, or closed or refused a connection, so that the caller should check whether
	// it still answers before the next case.
	Trouble bool
}

// Player plays cases. Each case gets unused accounts, symbols and connections. A Player is used by one
// goroutine.
type Player struct {
	Dialer dialect.Dialer // its Options have the function that takes remarks
	Habits dialect.Habits // the habits that Dialer has
	Seed   uint64         // seed of the tapes: the same seed gives the same orders
	Salt   string         // digits that no other run against this server used
	// Kill kills the server and starts it again, and limits its own time. If the server cannot be killed, Kill is nil,
	// and cases that need it are skipped.
	Kill func(ctx context.Context) error

	fresh int // accounts and symbols made so far
}
