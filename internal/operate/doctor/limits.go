package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"outcry/internal/operate/settings"
	"outcry/internal/process/memlimit"
)

// clockState is the state of the kernel's clock.
type clockState struct {
	synced   bool
	errorMax time.Duration
}

const (
	// clockPause is the minimum time for which the clock is watched. clockJump is how far it may then differ from the
	// monotonic clock.
	clockPause = 200 * time.Millisecond
	clockJump  = 20 * time.Millisecond

	// otherMemory is the least memory that books, closed orders and the program itself need.
	otherMemory = 512 << 20

	// backlogMin is how many connections must be able to wait for accept at the same time.
	backlogMin = 1024
)

// watchClock begins to watch the clock. The returned function ends the watch and adds the findings.
func (e *examination) watchClock() (stop func()) {
	begun := e.machine.now()
	return func() {
		if left := e.machine.pause - e.machine.now().Sub(begun); left > 0 {
			time.Sleep(left)
		}
		now := e.machine.now()
		// Sub uses the monotonic clock; Round(0) leaves only the wall clock.
		f := clockFinding(now.Sub(begun), now.Round(0).Sub(begun.Round(0)))
		e.found(f.Check, f.Grade, f.Advice, "%s", f.Value)
		c, err := e.machine.clock()
		if err != nil {
			e.unknown("clock", err)
			return
		}
		if !c.synced {
			e.found("clock", Warn,
				"the times in replies and reports drift: run chrony or systemd-timesyncd, or make sure that the host keeps the "+
					"clock", "the kernel's clock is not synchronized")
			return
		}
		e.found("clock", gradeIf(c.errorMax > time.Second, Warn), "its server is far or unreachable: see chronyc tracking",
			"synchronized, at most %s off", shown(c.errorMax))
	}
}

// clockFinding compares the time that passed with the time by which the wall clock moved.
func clockFinding(passed, went time.Duration) Finding {
	jump := (went - passed).Abs()
	return Finding{"clock steps", gradeIf(jump > clockJump, Warn),
		fmt.Sprintf("the clock was set by %s within %s", shown(jump), shown(passed)),
		"some program sets the clock: let only one adjust it, gradually (chrony)"}
}

// checkLimits compares limits of the kernel with what connections need.
func (e *examination) checkLimits() {
	need := e.filesNeeded()
	files, err := e.machine.files()
	if err != nil {
		e.unknown("open files", err)
	} else {
		xml, http := settings.ConnectionsWithin(files, e.ConnectionsMax, e.HTTPConnectionsMax)
		e.found("open files", gradeIf(files < need, Warn),
			fmt.Sprintf("raise ulimit -n (LimitNOFILE= of a unit) to %d: a server with this limit has at most %d connections, "+
				"and %d over HTTP", need, xml, http),
			"%d allowed, %d needed for %d connections and %d over HTTP", files, need, e.ConnectionsMax, e.HTTPConnectionsMax)
	}
	text, err := e.readText("/proc/sys/net/core/somaxconn")
	backlog, parseErr := strconv.Atoi(text)
	if err := errors.Join(err, parseErr); err != nil {
		e.unknown("listen backlog", err)
		return
	}
	e.found("listen backlog", gradeIf(backlog < backlogMin, Warn),
		fmt.Sprintf("sysctl -w net.core.somaxconn=%d: more clients than that at once must try again", 4*backlogMin),
		"net.core.somaxconn is %d", backlog)
}

// filesNeeded returns how many open files a server with these settings may need.
func (e *examination) filesNeeded() uint64 {
	return uint64(e.ConnectionsMax) + uint64(e.HTTPConnectionsMax) + settings.DescriptorReserve
}

// checkMemory compares the available memory with the memory that the server may use.
func (e *examination) checkMemory() {
	limit, of, err := memlimit.Available(e.machine.read)
	if err != nil {
		e.unknown("memory", err)
		return
	}
	// Twice --max-memory: frames and replies, and as much again for the garbage collector.
	least := 2 * uint64(e.MemoryMax)
	grade := OK
	switch {
	case limit < least:
		grade = Bad
	case limit < least+otherMemory:
		grade = Warn
	}
	e.found("memory", grade, fmt.Sprintf("give it %s or more, or lower --max-memory to %d", bytesOf(least+otherMemory),
		max(int64(limit)-otherMemory, 1<<20)/2/(1<<20)<<20),
		"%s, %s; twice --max-memory is %s", bytesOf(limit), of, bytesOf(least))
	e.checkMemoryLimit(limit)
}

// checkMemoryLimit compares the server's memory limit, near which the garbage collector works harder, with
// the available memory and with the sum of the server's bounds.
func (e *examination) checkMemoryLimit(there uint64) {
	limit, of := e.MemoryLimit.Bytes(e.machine.read)
	if set := e.machine.env("GOMEMLIMIT"); set != "" {
		n, known := parseMemory(set)
		if !known && set != "off" {
			e.found("memory limit", Bad, "set it to a number of bytes, or to one with KiB, MiB, GiB",
				"GOMEMLIMIT=%q is not an amount of memory", set)
			return
		}
		limit, of = int64(n), "GOMEMLIMIT"
	}
	bounds := memlimit.Needs{OpenOrders: e.OpenOrdersMax, Accounts: e.AccountsMax, Symbols: e.SymbolsMax,
		Large: e.MemoryMax}
	switch excess := bounds.Excess(limit, of); {
	case limit == 0:
		e.found("memory limit", Warn, "set --memory-limit: near it the server collects garbage instead of being killed",
			"none")
	case uint64(limit) > there:
		e.found("memory limit", Warn, "set it to four fifths of the memory", "%s, of %s", bytesOf(uint64(limit)),
			bytesOf(there))
	case excess != "":
		e.found("memory limit", Warn, "lower those bounds, or give it more memory", "%s", excess)
	default:
		e.found("memory limit", OK, "", "%s, %s", bytesOf(uint64(limit)), of)
	}
}

// parseMemory parses a memory limit in the format of GOMEMLIMIT.
func parseMemory(s string) (n uint64, known bool) {
	shift := 0
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "B"), 10, 63-shift)
	return n << shift, err == nil
}

// checkProcessors compares GOMAXPROCS with the quota of the control group.
func (e *examination) checkProcessors() {
	quota := math.Inf(1)
	for _, text := range memlimit.ControlGroup(e.machine.read, "cpu.max") {
		fields := strings.Fields(text)
		if len(fields) != 2 {
			continue
		}
		runs, err1 := strconv.ParseFloat(fields[0], 64) // "max" means no quota
		period, err2 := strconv.ParseFloat(fields[1], 64)
		if err1 == nil && err2 == nil && period > 0 {
			quota = min(quota, runs/period)
		}
	}
	processors := 0
	if b, err := e.machine.read("/proc/cpuinfo"); err == nil {
		processors = bytes.Count(b, []byte("processor\t:"))
	}
	shown := "no quota"
	if !math.IsInf(quota, 1) {
		shown = fmt.Sprintf("a quota of %.1f", quota)
	}
	grade, advice := OK, ""
	switch {
	case float64(e.machine.procs) > math.Ceil(quota):
		grade, advice = Warn,
			fmt.Sprintf("unset GOMAXPROCS, or set it to %.0f: threads that run out of the quota stall all others",
				math.Max(math.Floor(quota), 1))
	case min(float64(e.machine.procs), quota) < 2:
		grade, advice = Warn, "give it two processors or more: matching, syncing and Postgres wait for each other on one"
	}
	e.found("processors", grade, advice, "GOMAXPROCS is %d, of %d processors with %s", e.machine.procs, processors, shown)
}
