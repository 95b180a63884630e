package exchangetest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// output is the standard error of a process. Reads block until more arrives or the process has ended. The process
// never waits for a reader.
type output struct {
	mu    sync.Mutex // guards the fields below
	more  sync.Cond  // signaled after each change
	all   []byte
	at    int // all[:at] was read
	ended bool
}

// newOutput collects the bytes written to a pipe. ended is closed once all have been read.
func newOutput(pipe io.Reader) (o *output, ended <-chan struct{}) {
	o = &output{}
	o.more.L = &o.mu
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(o, pipe)
		o.mu.Lock()
		o.ended = true
		o.mu.Unlock()
		o.more.Broadcast()
		close(done)
	}()
	return o, done
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, b...)
	o.more.Broadcast()
	return len(b), nil
}

// Read implements io.Reader.
func (o *output) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.at == len(o.all) && !o.ended {
		o.more.Wait()
	}
	if o.at == len(o.all) {
		return 0, io.EOF
	}
	n := copy(b, o.all[o.at:])
	o.at += n
	return n, nil
}

// raceReport begins each report of the race detector.
const raceReport = "WARNING: DATA RACE"

// ReportRaces fails a test if the race detector of a process that the test started has written a report to log. It
// writes the log to standard error, without indentation, so that the program that reads the output of tests finds
// the report.
func ReportRaces(t testing.TB, log []byte) {
	if bytes.Contains(log, []byte(raceReport)) {
		fmt.Fprintf(os.Stderr, "%s\n", log)
		t.Errorf("a process of the test has a data race")
	}
}
