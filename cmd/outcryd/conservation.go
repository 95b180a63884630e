package main

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outcry/internal/exchange"
)

// conservationEvery is how old the count of cash and shares in /metrics may be. The cost of a count grows with the
// number of accounts.
const conservationEvery = 5 * time.Second

// conservation counts all cash and shares when metrics are scraped, but not more often than
// conservationEvery. Its methods may be called from any goroutine.
type conservation struct {
	count func() exchange.Imbalance // never called concurrently

	mu    sync.Mutex // held during a count; guards the fields below
	at    time.Time  // when the count in found was made; zero before the first count
	found exchange.Imbalance
}

// imbalance returns the amounts that do not add up, by a count made at most conservationEvery ago.
func (c *conservation) imbalance() exchange.Imbalance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) >= conservationEvery {
		c.found, c.at = c.count(), time.Now()
	}
	return c.found
}

// watchConservation adds the metrics of conservation, which are 0 unless there is a bug.
func (m *metrics) watchConservation(c *conservation) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "outcry_cash_imbalance_dollars",
			Help: "Cash of all accounts minus the balances they were opened with, " +
				"counted at most every 5 seconds. Always 0."},
			func() float64 { return dollars(c.imbalance().Cash) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "outcry_share_imbalance_symbols",
			Help: "Symbols whose shares do not add up to the placed shares, " +
				"counted at most every 5 seconds. Always 0."},
			func() float64 { return float64(c.imbalance().Symbols) }))
}

// dollars returns the float nearest to c. It is 0 only if c is 0.
func dollars(c exchange.Cash) float64 {
	f, _ := strconv.ParseFloat(c.String(), 64) // cannot fail: a decimal of at most 39 digits is a valid number
	return f
}
