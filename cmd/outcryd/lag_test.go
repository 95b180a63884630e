package main

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// blocker is a listener that blocks its view from the first event on until it is released.
type blocker struct{ released chan struct{} }

func (b blocker) Event(*exchange.AccountEvent) { <-b.released }
func (b blocker) Flush()                       {}
func (b blocker) End(error)                    {}

// slowed returns how often clients had to wait for the followers of the journal.
func (s *server) slowed(t *testing.T) (hits float64) {
	all := prometheus.NewRegistry()
	require.NoError(t, all.Register(s.metrics.sessions))
	families, err := all.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "outcry_limit_hits_total" && m.GetLabel()[0].GetValue() == "followers" {
				hits = m.GetCounter().GetValue()
			}
		}
	}
	return hits
}

// TestAViewThatLagsSlowsItsCause: while the view of accounts is slow, the server delays the connection whose orders it
// has not processed yet, and serves others. Both followers are known to the sessions.
func TestAViewThatLagsSlowsItsCause(t *testing.T) {
	flags, _ := dataFlags(t)
	s, addr := inProcess(t, flags...)
	require.Len(t, s.followers, 2, "the view and the feed")
	heavy, other := dial(t, addr), dial(t, addr)
	other.must(t,
		`<create><account id="1" balance="1000000"/><account id="2" balance="1000000"/><symbol sym="A"/></create>`)
	const order = `<order sym="A" amount="1" limit="1"/>`
	b := blocker{make(chan struct{})}
	release := sync.OnceFunc(func() { close(b.released) })
	t.Cleanup(release)
	seq := s.journal.Appended()
	require.Eventually(t, func() bool { return s.view.Seq() == seq }, time.Minute, time.Millisecond)
	leave, err := s.view.Subscribe("1", 0, false, b, func(*accounts.Snapshot, []*exchange.AccountEvent) {})
	require.NoError(t, err)
	heavy.must(t, `<transactions id="1">`+strings.Repeat(order, 20_000)+`</transactions>`)
	answered := make(chan error, 1)
	go func() {
		_, err := heavy.ask(`<transactions id="1">` + order + `</transactions>`)
		answered <- err
	}()
	assert.Eventually(t, func() bool { return s.slowed(t) == 1 }, 20*time.Second, time.Millisecond, "it waits")
	other.must(t, `<transactions id="2">`+order+`</transactions>`)
	other.must(t, `<create><account id="3" balance="1"/><symbol sym="B"/></create>`)
	seq = s.journal.Appended()
	require.EqualValues(t, 20_000+1+2, seq-3, "all but the waiting order: %d", seq)
	release()
	require.NoError(t, <-answered)
	leave()
}
