package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are recorded in nanoseconds, to two digits, from 1 µs to 100 s.
const (
	latencyMin    = int64(time.Microsecond)
	latencyMax    = int64(100 * time.Second)
	latencyDigits = 2
)

// errorsKept is how many different unexpected replies are shown.
const errorsKept = 10

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
}

// Result is what a run came to.
type Result struct {
	Requests uint64        // answered
	Errors   uint64        // answered with something unexpected
	Examples []string      // of those, a few
	Elapsed  time.Duration // from the first frame to the last reply
	BytesOut uint64        // of XML in all frames, without their length lines
	BytesIn  uint64        // and in all replies
	Latency  *hdrhistogram.Histogram
	// Sent counts from the moment at which a frame was sent instead of the moment
	// at which it was due. In the closed models it is Latency.
	Sent     *hdrhistogram.Histogram
	Timeline []Second
}

// Second is one second of a run.
type Second struct {
	Requests uint64
	Latency  *hdrhistogram.Histogram
}

// Merge returns several seconds as one.
func Merge(seconds []Second) Second {
	sum := Second{Latency: newHistogram()}
	for _, s := range seconds {
		sum.Requests += s.Requests
		sum.Latency.Merge(s.Latency)
	}
	return sum
}

// Millis returns the latency that a share q of the frames, from 0 to 1, stayed at or
// below, in milliseconds.
func (s Second) Millis(q float64) float64 { return float64(quantile(s.Latency, q)) / 1e6 }

// Rate returns answered frames a second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Quantile returns the latency that a share q of all frames, from 0 to 1, stayed
// at or below.
func (r *Result) Quantile(q float64) time.Duration { return quantile(r.Latency, q) }

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(100 * q))
}

// recorder gathers what all connections see.
type recorder struct {
	options Options
	began   time.Time

	mu       sync.Mutex // guards what follows
	last     time.Time  // the last reply
	seconds  []Second
	errors   uint64
	examples []string
	bytesOut uint64
	bytesIn  uint64
}

func newRecorder(o Options) *recorder { return &recorder{options: o, began: time.Now()} }

// connectionRecorder gathers what one connection sees, and hands it on once a
// second, so that connections do not meet at a lock.
type connectionRecorder struct {
	to       *recorder
	second   int // of the run, that current is of
	current  *hdrhistogram.Histogram
	errors   uint64
	example  string
	bytesOut uint64
	bytesIn  uint64
	writeErr error
}

func (r *recorder) connection() *connectionRecorder {
	return &connectionRecorder{to: r, current: newHistogram()}
}

// add records one reply.
func (c *connectionRecorder) add(from, now time.Time, err error) {
	if second := int(now.Sub(c.to.began) / time.Second); second != c.second {
		c.flush(now)
		c.second = second
	}
	_ = c.current.RecordValue(min(max(int64(now.Sub(from)), latencyMin), latencyMax)) // in range
	if err != nil {
		c.errors++
		c.example = err.Error()
	}
}

// flush hands on what has gathered.
func (c *connectionRecorder) flush(now time.Time) {
	n := c.current.TotalCount()
	if n == 0 {
		return
	}
	r := c.to
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.seconds) <= c.second {
		r.seconds = append(r.seconds, Second{Latency: newHistogram()})
	}
	s := &r.seconds[c.second]
	s.Requests += uint64(n)
	s.Latency.Merge(c.current)
	c.current.Reset()
	r.errors += c.errors
	if c.errors > 0 && len(r.examples) < errorsKept {
		r.examples = append(r.examples, c.example)
	}
	c.errors = 0
	r.bytesOut += c.bytesOut
	r.bytesIn += c.bytesIn
	c.bytesOut, c.bytesIn = 0, 0
	if now.After(r.last) {
		r.last = now
	}
}

// result merges everything.
func (r *recorder) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := &Result{BytesOut: r.bytesOut, BytesIn: r.bytesIn, Errors: r.errors, Examples: r.examples, Elapsed: r.last.Sub(r.began), Latency: newHistogram(), Timeline: r.seconds}
	for _, s := range r.seconds {
		result.Requests += s.Requests
		result.Latency.Merge(s.Latency)
	}
	result.Sent = result.Latency
	return result
}

// report tells of progress once a second, until what it returns is called.
func (r *recorder) report() (stop func()) {
	if r.options.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.options.Progress(r.progress())
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

func (r *recorder) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Elapsed: time.Since(r.began), Errors: r.errors}
	for _, s := range r.seconds {
		p.Requests += s.Requests
	}
	// The second that has just ended; connections without a reply in this one have
	// not handed it on yet.
	if n := len(r.seconds); n > 1 {
		last := r.seconds[n-2]
		p.Rate = float64(last.Requests)
		p.P50, p.P99 = quantile(last.Latency, 0.5), quantile(last.Latency, 0.99)
	}
	if r.options.Duration > 0 {
		p.Left = max(r.options.Duration-p.Elapsed, 0)
	}
	return p
}
