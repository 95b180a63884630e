package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are recorded in nanoseconds, with two significant digits, from 1 µs to 100 s.
const (
	latencyMin    = int64(time.Microsecond)
	latencyMax    = int64(100 * time.Second)
	latencyDigits = 2
)

// errorsKept is how many different unexpected replies are kept as examples.
const errorsKept = 10

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(latencyMin, latencyMax, latencyDigits)
}

// Result is the outcome of a run.
type Result struct {
	Requests uint64        // requests answered
	Errors   uint64        // requests answered with something unexpected
	Examples []string      // a few of the unexpected replies
	Elapsed  time.Duration // from the first frame to the last reply
	BytesOut uint64        // bytes of XML in all frames, without length lines
	BytesIn  uint64        // bytes of XML in all replies, without length lines
	Latency  *hdrhistogram.Histogram
	// Sent has latencies from the time a frame was sent rather than due. In the closed models it equals Latency.
	Sent     *hdrhistogram.Histogram
	Timeline []Second
}

// Second is one second of a run.
type Second struct {
	Requests uint64
	Latency  *hdrhistogram.Histogram
}

// merge merges several seconds into one.
func merge(seconds []Second) Second {
	sum := Second{Latency: newHistogram()}
	for _, s := range seconds {
		sum.Requests += s.Requests
		sum.Latency.Merge(s.Latency)
	}
	return sum
}

// Rate returns the number of answered requests a second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Quantile returns the q-quantile of the latencies; q is from 0 to 1.
func (r *Result) Quantile(q float64) time.Duration { return quantile(r.Latency, q) }

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(100 * q))
}

// Recorder collects the measurements of all connections of a run. The run begins when NewRecorder is
// called.
type Recorder struct {
	options Options
	began   time.Time

	mu       sync.Mutex    // guards the fields below
	last     time.Duration // time of the last reply, from the start
	seconds  []Second
	sent     *hdrhistogram.Histogram // open runs only
	errors   uint64
	examples []string
	bytesOut uint64
	bytesIn  uint64
}

// NewRecorder returns a recorder for a run that begins now.
func NewRecorder(o Options) *Recorder { return &Recorder{options: o, began: time.Now()} }

// Began returns when the run began.
func (r *Recorder) Began() time.Time { return r.began }

// Lane collects the measurements of one connection and passes them to the recorder once a second, so that
// connections do not contend for a lock. It is used by one goroutine.
type Lane struct {
	to       *Recorder
	second   int // the second of the run that current covers
	current  *hdrhistogram.Histogram
	sent     *hdrhistogram.Histogram
	last     time.Duration
	errors   uint64
	example  string
	bytesOut uint64
	bytesIn  uint64
	writeErr error
}

// Lane returns a new lane.
func (r *Recorder) Lane() *Lane { return &Lane{to: r, current: newHistogram()} }

// OpenLane returns a new lane of an open run, which also records latencies from sending.
func (r *Recorder) OpenLane() *Lane {
	l := r.Lane()
	l.sent = newHistogram()
	return l
}

// Add records a frame by the times at which it was due, sent and answered. unexpected describes an
// unexpected reply, or is nil.
func (l *Lane) Add(due, sent, end time.Time, unexpected error) {
	b := l.to.began
	l.add(due.Sub(b), sent.Sub(b), end.Sub(b), unexpected)
}

// add does the same as Add with times since the start of the run.
func (l *Lane) add(due, sent, end time.Duration, unexpected error) {
	if second := int(end / time.Second); second != l.second {
		l.Flush()
		l.second = second
	}
	record(l.current, end-due)
	if l.sent != nil {
		record(l.sent, end-sent)
	}
	l.last = max(l.last, end)
	if unexpected != nil {
		l.errors++
		l.example = unexpected.Error()
	}
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), latencyMin), latencyMax)) // never fails: the value is in range
}

// Flush passes the collected measurements to the recorder.
func (l *Lane) Flush() {
	n := l.current.TotalCount()
	if n == 0 {
		return
	}
	r := l.to
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.seconds) <= l.second {
		r.seconds = append(r.seconds, Second{Latency: newHistogram()})
	}
	s := &r.seconds[l.second]
	s.Requests += uint64(n)
	s.Latency.Merge(l.current)
	l.current.Reset()
	if l.sent != nil {
		if r.sent == nil {
			r.sent = newHistogram()
		}
		r.sent.Merge(l.sent)
		l.sent.Reset()
	}
	r.errors += l.errors
	if l.errors > 0 && len(r.examples) < errorsKept {
		r.examples = append(r.examples, l.example)
	}
	l.errors = 0
	r.bytesOut += l.bytesOut
	r.bytesIn += l.bytesIn
	l.bytesOut, l.bytesIn = 0, 0
	r.last = max(r.last, l.last)
}

// Result merges all flushed measurements. p, which may be nil, is the pool that sent the frames and counted their
// bytes.
func (r *Recorder) Result(p *Pool) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := &Result{BytesOut: r.bytesOut, BytesIn: r.bytesIn, Errors: r.errors, Examples: r.examples,
		Elapsed: r.last, Latency: newHistogram(), Timeline: r.seconds}
	if p != nil {
		result.BytesOut, result.BytesIn = p.bytesOut.Load(), p.bytesIn.Load()
	}
	for _, s := range r.seconds {
		result.Requests += s.Requests
		result.Latency.Merge(s.Latency)
	}
	if result.Sent = r.sent; r.sent == nil {
		result.Sent = result.Latency
	}
	return result
}

// Report calls the progress function once a second until stop is called.
func (r *Recorder) Report() (stop func()) {
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

func (r *Recorder) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Elapsed: time.Since(r.began), Errors: r.errors}
	for _, s := range r.seconds {
		p.Requests += s.Requests
	}
	// These are figures of the previous second. Connections without a reply in the current second have not flushed
	// theirs yet.
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
