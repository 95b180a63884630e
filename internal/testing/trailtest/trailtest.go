// Package trailtest makes followers for tests that have records and no journal.
package trailtest

import (
	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

// Options are those of a trail of events.
var Options = trail.Options[exchange.KeptEvent]{Decode: exchange.KeptDecoder, Extra: (*exchange.KeptEvent).Extra,
	Work: (*exchange.KeptEvent).Work, Recycle: (*exchange.KeptEvent).Recycle}

// Follow returns a follower of records, the first of which is the one after the record after. notify requests a
// wake-up when more records are synced; if it is nil, the follower polls.
func Follow(
	records trail.Records, after uint64, notify func(seq uint64, wake chan<- struct{}),
) *trail.Follower[exchange.KeptEvent] {
	return trail.FollowRecords(records, Options, trail.FollowOptions{After: after}, notify)
}
