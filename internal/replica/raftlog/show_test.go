package raftlog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outcry/internal/replica/core"
)

// show formats the state of a start, for comparison.
func show(d core.Durable) string {
	var b strings.Builder
	fmt.Fprintf(&b, "self %x\nmark %x\n", d.Self, d.Mark.Encode())
	for _, id := range slices.Sorted(maps.Keys(d.Heard)) {
		fmt.Fprintf(&b, "heard %d %x\n", id, d.Heard[id])
	}
	for _, e := range d.Entries {
		fmt.Fprintf(&b, "entry %d/%d type %d %x\n", e.GetIndex(), e.GetTerm(), e.GetType(), e.GetData())
	}
	if d.Hard != nil {
		fmt.Fprintf(&b, "hard %d/%d/%d\n", d.Hard.GetTerm(), d.Hard.GetVote(), d.Hard.GetCommit())
	}
	return b.String()
}
