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
	"crypto/tls"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"outcry/internal/process/memlimit"
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
	Advice string `json:"advice,omitempty"` // what to change; empty if nothing
}

// Options say what is looked at.
type Options struct {
	Data        string // the data directory; it need not be there yet
	DatabaseURL string // "" for the local cluster below Data
	HTTP        string // address of a running server's HTTP side, of a cluster A,B,C; "" for none

	// Token is for the HTTP side, if that asks for one. It is sent over TLS, or to this
	// machine.
	Token string

	TLS *tls.Config // how the HTTP side is spoken to; nil if it speaks no TLS

	ConnectionsMax     int   // as outcryd --max-connections
	HTTPConnectionsMax int   // as outcryd --max-http-connections
	MemoryMax          int64 // as outcryd --max-memory

	// As outcryd's flags max-open-orders, max-accounts, max-symbols and memory-limit.
	OpenOrdersMax, AccountsMax, SymbolsMax int
	MemoryLimit                            memlimit.Limit

	Revision string // of this program, as its build has it; "" where unknown
}

// Examine does all checks and returns what they found, in an order that stays the same.
// It takes a few seconds. Each check is bounded in time, also if a disk answers nothing,
// and ctx ends it; what hangs in the kernel then is left behind. What cannot be looked at is a finding too.
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

	patience time.Duration // how long a check may take
}

// checkTimeout is that of this machine. It is above what a check needs that waits for
// others.
const checkTimeout = databaseTimeout + 2*time.Second

func thisMachine() machine {
	return machine{read: os.ReadFile, env: os.Getenv, files: openFilesMax, clock: kernelClock, disk: diskOf,
		sync: TimeSyncs,
		now:  time.Now, procs: runtime.GOMAXPROCS(0), pause: clockPause, patience: checkTimeout}
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
	for _, check := range []struct {
		name string
		do   func(*examination)
	}{
		{"directory", (*examination).checkDirectory},
		{"file system", (*examination).checkDisk},
		{"disk sync", (*examination).checkSync},
		{"open files", (*examination).checkLimits},
		{"memory", (*examination).checkMemory},
		{"processors", (*examination).checkProcessors},
		{"journal", (*examination).checkJournal},
		{"cluster", (*examination).checkMember},
		{"postgres", func(part *examination) { part.checkDatabase(ctx) }},
		{"server", func(part *examination) { part.checkServers(ctx) }},
	} {
		e.within(ctx, check.name, check.do)
	}
	stopWatch()
	return e.findings
}

// within does a check, whose findings count if it ends in time.
func (e *examination) within(ctx context.Context, name string, check func(*examination)) {
	part := &examination{Options: e.Options, machine: e.machine}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		check(part)
	}()
	timer := time.NewTimer(e.machine.patience)
	defer timer.Stop()
	select {
	case <-ended:
		e.findings = append(e.findings, part.findings...)
	case <-ctx.Done():
		e.unknown(name, ctx.Err())
	case <-timer.C:
		e.found(name, Bad, "see whether the disk answers: ls "+e.Data+", and dmesg", "it could not be looked at within %s",
			e.machine.patience)
	}
}

// found adds a finding. If it is ok there is no advice.
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

// gradeIf returns a grade if a condition holds, else OK.
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
