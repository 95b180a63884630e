// Package doctor checks the machine, the disk and the database that an exchange is to run on, and reports problems and
// how to fix them. It changes nothing, and leaves no file behind, even if it is killed.
//
// A check makes findings, each with a grade:
//
//	ok      as it should be
//	warn    works, but is slower or less safe than it could be; or could not be checked
//	bad     commands that were answered may be lost, or the exchange will not run
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

// Grade is the severity of a finding.
type Grade string

// The grades.
const (
	OK   Grade = "ok"
	Warn Grade = "warn"
	Bad  Grade = "bad"
)

// Finding is the result of a check.
type Finding struct {
	Check  string `json:"check"`
	Grade  Grade  `json:"grade"`
	Value  string `json:"value"`            // what was found
	Advice string `json:"advice,omitempty"` // what to change; empty if nothing needs to change
}

// Options are the options of Examine.
type Options struct {
	Data        string // the data directory; it need not exist yet
	DatabaseURL string // "" for the local cluster in Data
	HTTP        string // address of a running server's HTTP side, A,B,C for a cluster; "" for none

	// Token is the token for the HTTP side, if that requires one. It is sent only over TLS or to this
	// machine.
	Token string

	TLS *tls.Config // TLS configuration for the HTTP side; nil if that does not use TLS

	ConnectionsMax     int   // outcryd --max-connections
	HTTPConnectionsMax int   // outcryd --max-http-connections
	MemoryMax          int64 // outcryd --max-memory

	// outcryd --max-open-orders, --max-accounts, --max-symbols and --memory-limit.
	OpenOrdersMax, AccountsMax, SymbolsMax int
	MemoryLimit                            memlimit.Limit

	Revision string // commit that this program was built from; "" if unknown
}

// Examine runs all checks and returns their findings, always in the same order. It takes a few seconds. Each check is
// limited in time, even if a disk does not respond, and the end of ctx ends it; a system call that hangs keeps its
// goroutine. Something that cannot be checked is a finding too.
func Examine(ctx context.Context, o Options) []Finding {
	e := &examination{Options: o, machine: thisMachine()}
	return e.run(ctx)
}

// machine is the checks' access to the machine. Tests replace it.
type machine struct {
	read  func(path string) ([]byte, error) // reads files of /proc and /sys
	env   func(name string) string
	files func() (uint64, error)     // the largest number of open files of a process
	clock func() (clockState, error) // the state of the kernel's clock
	disk  func(dir string) (disk, error)
	sync  func(dir string, n int, most time.Duration) ([]time.Duration, error)
	now   func() time.Time
	procs int
	pause time.Duration // the minimum time for which the clock is watched

	patience time.Duration // how long a check may take
}

// checkTimeout is the patience on a real machine. It is longer than a check may wait for the database or a server.
const checkTimeout = databaseTimeout + 2*time.Second

func thisMachine() machine {
	return machine{read: os.ReadFile, env: os.Getenv, files: openFilesMax, clock: kernelClock, disk: diskOf,
		sync: TimeSyncs,
		now:  time.Now, procs: runtime.GOMAXPROCS(0), pause: clockPause, patience: checkTimeout}
}

// examination collects findings.
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

// within runs a check in its own goroutine. If the check does not end in time, a single finding that says so replaces
// its findings.
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
		e.found(name, Bad, "see whether the disk answers: ls "+e.Data+", and dmesg", "it could not be checked within %s",
			e.machine.patience)
	}
}

// found adds a finding. It drops the advice if the grade is OK.
func (e *examination) found(check string, g Grade, advice, format string, args ...any) {
	if g == OK {
		advice = ""
	}
	e.findings = append(e.findings, Finding{check, g, fmt.Sprintf(format, args...), advice})
}

// unknown adds a finding that something could not be checked.
func (e *examination) unknown(check string, err error) {
	e.found(check, Warn, "check it by hand", "not known: %v", err)
}

// gradeIf returns g if the condition holds, else OK.
func gradeIf(is bool, g Grade) Grade {
	if is {
		return g
	}
	return OK
}

// bytesOf formats a number of bytes for people.
func bytesOf(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

// readText reads a small file, and removes white space around its content.
func (e *examination) readText(path string) (string, error) {
	b, err := e.machine.read(path)
	return strings.TrimSpace(string(b)), err
}
