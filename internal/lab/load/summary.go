package load

import (
	"slices"
	"time"
)

// Quantiles are the quantiles of the latencies in Summary.Curve.
var Quantiles = []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999}

// Summary is a Result in the form written to files. Latencies are in milliseconds, counted from the time
// a frame was due.
type Summary struct {
	Requests uint64    `json:"requests"`
	Errors   uint64    `json:"errors"` // replies that the source did not expect
	Example  string    `json:"error_example,omitempty"`
	Seconds  float64   `json:"seconds"`
	Rate     float64   `json:"requests_per_second"`
	P50      float64   `json:"p50_ms"`
	P90      float64   `json:"p90_ms"`
	P99      float64   `json:"p99_ms"`
	P999     float64   `json:"p999_ms"`
	Max      float64   `json:"max_ms"`
	Curve    []float64 `json:"curve_ms"`            // latencies at Quantiles
	SentP99  float64   `json:"p99_from_sending_ms"` // counted from sending, as load generators often do
	Timeline []Moment  `json:"timeline,omitempty"`
}

// Moment is one second, or a few merged seconds, of a run in the form written to files.
type Moment struct {
	Requests uint64  `json:"requests"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

// Summary returns the result in the form written to files.
func (r *Result) Summary() Summary {
	ms := func(q float64) float64 { return Millis(r.Quantile(q)) }
	s := Summary{Requests: r.Requests, Errors: r.Errors, Seconds: r.Elapsed.Seconds(), Rate: r.Rate(),
		P50: ms(0.5), P90: ms(0.9), P99: ms(0.99), P999: ms(0.999), Max: ms(1),
		SentP99: Millis(quantile(r.Sent, 0.99))}
	if len(r.Examples) > 0 {
		s.Example = r.Examples[0]
	}
	for _, q := range Quantiles {
		s.Curve = append(s.Curve, ms(q))
	}
	for _, second := range r.Timeline {
		s.Timeline = append(s.Timeline, second.Moment())
	}
	return s
}

// Moment returns the second in the form written to files.
func (s Second) Moment() Moment {
	return Moment{s.Requests, Millis(quantile(s.Latency, 0.5)), Millis(quantile(s.Latency, 0.99)),
		Millis(time.Duration(s.Latency.Max()))}
}

// Moments merges every given number of seconds of a timeline into one moment. The last moment may cover
// fewer.
func Moments(timeline []Second, seconds int) (all []Moment) {
	for part := range slices.Chunk(timeline, seconds) {
		all = append(all, merge(part).Moment())
	}
	return all
}

// Millis returns d in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / 1e6 }
