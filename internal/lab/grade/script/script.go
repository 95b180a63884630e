package script

import (
	"context"
	"time"

	"outcry/internal/lab/dialect"
)

// Groups are the groups of cases in the order in which they are played, with their weights.
var Groups = []Group{
	{"frames", 8}, {"create", 9}, {"orders", 11}, {"matching", 24}, {"query-cancel", 12}, {"money", 16},
	{"concurrency", 8}, {"limits", 8}, {"durability", 10}, {"form", 4}, {"load", 0},
}

// Group is a group of cases.
type Group struct {
	Name   string
	Weight float64
}

// Case is one case. It is not changed after it was read.
type Case struct {
	Name   string // with the group: matching/time-priority-sells
	Group  string
	Rule   string        // a heading of PROTOCOL.md, and perhaps what below it: transactions, Matching
	Tell   string        // what has to hold, in a sentence that a student understands
	Points float64       // within the group; 1 unless said
	Risk   int           // 0 to 9: those that may bring a server down are played late
	Time   time.Duration // it may take so long; 10 s unless said
	Hidden bool
	Parts  []string // {part} in each of its parts; nil if there are none
	Steps  []Step   // none in the group form, whose cases are judged by what was remarked
}

// Status is what a case came to.
type Status string

// The statuses.
const (
	Pass Status = "pass"
	Part Status = "part" // some of its parts
	Fail Status = "fail"
	Skip Status = "skip" // counts for nothing
)

// Outcome is what a played case came to.
type Outcome struct {
	Status  Status
	Share   float64 // of its points: 1 for Pass, k of n parts for Part
	Message string  // what was expected and what came, in a sentence or two; why it was skipped
	// Conversation is "> sent", "< got", "! wanted", newest last; the shortest that shows it; at most 4 kB. A pass
	// has one if the case has a risk.
	Conversation []string
	Tries        int // how often it was played: 1, of concurrency that failed up to 3
	// Trouble says that the server hung, closed or refused a connection: the player of the next case
	// finds out first whether the server still answers.
	Trouble bool
}

// Player plays cases. Each case has accounts, symbols and connections of its own. A Player is
// used by one goroutine.
type Player struct {
	Dialer dialect.Dialer // with the Options that remark
	Habits dialect.Habits // those of Dialer
	Seed   uint64         // of tapes: the same seed has the same orders
	Salt   string         // digits that no other run on this server had
	// Kill kills the server and starts it again; nil if that cannot be done, and a case that asks for
	// it is then skipped. It bounds its own time.
	Kill func(ctx context.Context) error

	fresh int // accounts and symbols that were made
}
