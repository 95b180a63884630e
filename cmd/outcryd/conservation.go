package main

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outcry/internal/exchange"
)

// conservationEvery is how old a count of all cash and shares may be that
// /metrics shows: a count costs the more the more accounts there are.
const conservationEvery = 5 * time.Second

// conservation counts all cash and shares when somebody looks, and not too often.
// Its methods may be called from any goroutine.
type conservation struct {
	count func() exchange.Imbalance // one call at a time

	mu    sync.Mutex // held over a count; guards what follows
	at    time.Time  // when found was counted, zero before the first time
	found exchange.Imbalance
}

// imbalance returns what does not add up, as counted at most conservationEvery ago.
func (c *conservation) imbalance() exchange.Imbalance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) >= conservationEvery {
		c.found, c.at = c.count(), time.Now()
	}
	return c.found
}

// watchConservation adds what is 0 at all times, unless there is a bug.
func (m *metrics) watchConservation(c *conservation) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "outcry_cash_imbalance_dollars",
			Help: "Cash that accounts have beyond what they were opened with, " +
				"counted anew at most every 5 seconds. 0 at all times."},
			func() float64 { return dollars(c.imbalance().Cash) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "outcry_share_imbalance_symbols",
			Help: "Symbols whose shares do not add up to what was placed, " +
				"counted anew at most every 5 seconds. 0 at all times."},
			func() float64 { return float64(c.imbalance().Symbols) }))
}

// dollars returns a float near c, which is 0 only if c is.
func dollars(c exchange.Cash) float64 {
	f, _ := strconv.ParseFloat(c.String(), 64) // a decimal of at most 39 digits always is a number
	return f
}
