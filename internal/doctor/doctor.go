// Package doctor looks at the machine, the disk and the database that an exchange is to
// run on, and says what is wrong with them and what to change. It changes nothing, and
// leaves no file behind, also when it is killed.
//
// A check makes findings, each with a grade:
//
//	ok      as it should be
//	warn    works, and is slower or less safe than it could be; or could not be looked at
//	bad     what was answered may be lost, or the exchange will not run
package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Grade says how bad a finding is.
type Grade string

// The grades.
const (
	OK   Grade = "ok"
	Warn Grade = "warn"
	Bad  Grade = "bad"
)

// Finding is what a check found.
type Finding struct {
	Check  string `json:"check"`
	Grade  Grade  `json:"grade"`
	Value  string `json:"value"`            // what is so
	Advice string `json:"advice,omitempty"` // what to change; empty where nothing
}

// Options say what is looked at.
type Options struct {
	Data        string // the data directory; it need not be there yet
	DatabaseURL string // "" for the local cluster below Data
	HTTP        string // address of a running server's HTTP side; "" for none
	Token       string // for the HTTP side, where that asks for one

	ConnectionsMax int    // as outcryd --max-connections
	MemoryMax      int64  // as outcryd --max-memory
	Revision       string // of this program, as its build has it; "" where unknown
}

// Examine does all checks and returns what they found, in an order that stays the same.
// It takes a few seconds at the most: each check is bounded in time, and ctx ends them.
// What cannot be looked at is a finding too.
func Examine(ctx context.Context, o Options) []Finding {
	e := &examination{Options: o, machine: thisMachine()}
	return e.run(ctx)
}

// machine is what checks read of the machine. Tests put another one in its place.
type machine struct {
	read  func(path string) ([]byte, error) // of /proc and /sys
	env   func(name string) string
	files func() (uint64, error)     // most open files of a process
	clock func() (clockState, error) // what the kernel knows of its clock
	disk  func(dir string) (disk, error)
	sync  func(dir string, n int, most time.Duration) ([]time.Duration, error)
	now   func() time.Time
	procs int
	pause time.Duration // over which the clock is watched
}

func thisMachine() machine {
	return machine{read: os.ReadFile, env: os.Getenv, files: openFilesMax, clock: kernelClock, disk: diskOf, sync: timeSyncs,
		now: time.Now, procs: runtime.GOMAXPROCS(0), pause: clockPause}
}

// examination gathers findings.
type examination struct {
	Options
	machine  machine
	findings []Finding
}

// run does all checks.
func (e *examination) run(ctx context.Context) []Finding {
	stopWatch := e.watchClock()
	e.checkDirectory()
	e.checkDisk()
	e.checkSync()
	e.checkLimits()
	e.checkMemory()
	e.checkProcessors()
	e.checkJournal()
	e.checkDatabase(ctx)
	e.checkServer(ctx)
	stopWatch()
	return e.findings
}

// found adds a finding. Where it is ok there is no advice.
func (e *examination) found(check string, g Grade, advice, format string, args ...any) {
	if g == OK {
		advice = ""
	}
	e.findings = append(e.findings, Finding{check, g, fmt.Sprintf(format, args...), advice})
}

// unknown adds that something could not be looked at.
func (e *examination) unknown(check string, err error) {
	e.found(check, Warn, "look at it by hand", "not known: %v", err)
}

// gradeIf returns a grade where a condition holds, else OK.
func gradeIf(is bool, g Grade) Grade {
	if is {
		return g
	}
	return OK
}

// bytesOf shows a number of bytes for people.
func bytesOf(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// readText returns a small file without the space around it.
func (e *examination) readText(path string) (string, error) {
	b, err := e.machine.read(path)
	return strings.TrimSpace(string(b)), err
}
