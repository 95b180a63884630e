package main

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/operate/settings"
	"outcry/internal/view/accounts"
)

// newFollower returns a follower of the records after the given one that may be published. The journal keeps at most
// 2 × --max-lag records for it, so a follower that hangs cannot fill the disk. Reloads adjust that bound.
func (s *server) newFollower(after uint64) (*trail.Follower[exchange.KeptEvent], error) {
	held := func(c *settings.Config) uint64 { return 2 * uint64(c.LagMax) }
	records, err := s.trail.Follow(trail.FollowOptions{After: after, HoldMax: held(s.config), Limit: s.mayFollow()})
	if err != nil {
		return nil, err
	}
	s.followers = append(s.followers, records)
	s.onReload(func(c *settings.Config) (func(), error) { return func() { records.Hold(held(c)) }, nil })
	return records, nil
}

// mayFollow returns a function that returns the newest seq that followers may publish, or nil if they may publish
// every record of the journal.
func (s *server) mayFollow() func() uint64 {
	if s.member != nil {
		return nil // the journal of a node holds committed records only
	}
	return func() uint64 { return s.engine.DurableSeq() } // the engine exists before the followers run
}

// newView makes the view of accounts, which starts from the database's state and then reads the journal.
func (s *server) newView(state *exchange.Snapshot) error {
	records, err := s.newFollower(state.Seq)
	if err != nil {
		return fmt.Errorf("the view of accounts after record %d: %w", state.Seq, err)
	}
	s.view = accounts.NewView(accounts.Options{Records: records, Fills: s.olderFills, Log: s.log}, state)
	return nil
}

// olderFills reads older fills from the database, which is open before the view runs.
func (s *server) olderFills(ctx context.Context, id exchange.AccountID, after uint64, most int) (
	fills []exchange.AccountFill, first uint64, err error,
) {
	return s.history.Fills(ctx, id, after, most)
}

// runFollowers starts the view of accounts and the market data feed. The engine or the standby must exist.
func (s *server) runFollowers() {
	ctx, cancel := context.WithCancel(context.Background())
	s.unfollow = cancel
	s.metrics.watchView(s.view, s.journal)
	s.running.Go(func() { s.view.Run(ctx) })
	s.doors.view.Store(s.view)
	s.runFeed(ctx)
}

// watchView adds the metrics of the view of accounts, which are read at each scrape.
func (m *metrics) watchView(v *accounts.View, j *journal.Journal) {
	m.gauge("outcry_account_view_up", "1 while queries about accounts are answered, 0 after the view of accounts has "+
		"failed.",
		func() float64 { return oneIf(v.Err() == nil) })
	m.gauge("outcry_account_view_lag_records", "Journal records that the view of accounts does not include yet.",
		func() float64 {
			seq := v.Seq() // read first, because the journal may grow in between
			return float64(j.Appended() - seq)
		})
}
