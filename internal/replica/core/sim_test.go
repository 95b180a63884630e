package core

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
)

const (
	simNodesMax  = 9
	traceLen     = 80
	microsecond  = int64(1)
	millisecond  = 1000 * microsecond
	second       = 1000 * millisecond
	simFaults    = 12 * second // time with faults
	simMend      = 60 * second // limit on the time to recover after the faults
	mailMax      = 4096        // limit on the messages that wait for a stopped process
	eventsMax    = 3_000_000
	tickLen      = 10 * millisecond
	answerWithin = 500 * millisecond // time until a client tries the next node
)

// simEvent is an action at a point in time. order decides between actions at the same time.
type simEvent struct {
	at    int64
	order uint64
	do    func()
}

// traced is one line of the history. It is formatted only when the story is printed.
type traced struct {
	at   int64
	what string
	node uint64
	a, b uint64
}

// trace holds the last lines of a history.
type trace struct {
	last  [traceLen]traced
	lines uint64
}

// sim is one history. Its seed determines everything that happens.
type sim struct {
	seed  uint64
	rnd   *rand.Rand
	now   int64
	order uint64
	queue []simEvent
	hash  uint64
	trace [2]trace // one for events, one for messages
	err   error

	plant   plant
	weather weather
	healing bool
	stuck   bool       // the cluster did not recover
	voters  int64      // until this time power cuts hit nodes that have just voted
	nodes   []*simNode // sorted by id
	net     simNet
	clients []*simClient
	truth   simTruth
	ops     simOperator
	mark    Mark // start of the founders' logs
}

// plant selects bugs that the simulation must find.
type plant struct {
	voteNotSynced, answerBeforeSync, noFence, noStepDown, chainOff, appliedTwice bool
	compactedTooEarly, learnerCounted, lostDiskVotes, noConfirm                  bool
}

func newSim(seed uint64, p plant) *sim {
	s := &sim{seed: seed, rnd: rand.New(rand.NewPCG(seed, 0x6f757463727921)), plant: p, hash: 14695981039346656037}
	return s
}

// Read returns the random bytes from which package raft draws its timeouts.
func (s *sim) Read(p []byte) (int, error) {
	var b [8]byte
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(b[:], s.rnd.Uint64())
		copy(p[i:], b[:])
	}
	return len(p), nil
}

// chance returns true with a probability of percent/100.
func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

// between returns a random time from a to b.
func (s *sim) between(a, b int64) int64 { return a + s.rnd.Int64N(b-a+1) }

// after schedules do in d.
func (s *sim) after(d int64, do func()) {
	s.order++
	s.queue = append(s.queue, simEvent{s.now + d, s.order, do})
	for i := len(s.queue) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.queue[i].before(&s.queue[up]) {
			break
		}
		s.queue[i], s.queue[up] = s.queue[up], s.queue[i]
		i = up
	}
}

func (e *simEvent) before(o *simEvent) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// next removes and returns the earliest event.
func (s *sim) next() simEvent {
	q := s.queue
	first, last := q[0], len(q)-1
	q[0] = q[last]
	q[last] = simEvent{}
	q = q[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && q[down+1].before(&q[down]) {
			down++
		}
		if !q[down].before(&q[i]) {
			break
		}
		q[i], q[down] = q[down], q[i]
		i = down
	}
	s.queue = q
	return first
}

// note adds a line to the history and to its hash.
func (s *sim) note(what string, node, a, b uint64) { s.line(0, what, node, a, b) }

func (s *sim) line(kind int, what string, node, a, b uint64) {
	t := &s.trace[kind]
	t.last[t.lines%traceLen] = traced{s.now, what, node, a, b}
	t.lines++
	for _, v := range [...]uint64{uint64(s.now), node, a, b} {
		s.mix(v)
	}
	for i := range len(what) {
		s.mix(uint64(what[i]))
	}
}

func (s *sim) mix(v uint64) {
	s.hash = (s.hash ^ v) * 1099511628211
	s.hash ^= s.hash >> 29
}

// fail ends the history. Only the first violation counts.
func (s *sim) fail(format string, arguments ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, arguments...)
	}
}

// story formats the last lines of the history and the states of the nodes.
func (s *sim) story() string {
	var b strings.Builder
	for i, title := range [...]string{"messages", "events"} {
		t := &s.trace[1-i]
		fmt.Fprintf(&b, "the last of %d %s:\n", t.lines, title)
		for i := max(t.lines, traceLen) - traceLen; i < t.lines; i++ {
			l := t.last[i%traceLen]
			fmt.Fprintf(&b, "%10.3f ms  node %d  %s %d %d\n", float64(l.at)/1000, l.node, l.what, l.a, l.b)
		}
	}
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "node %d: up %t, lost %t, idle %t, broken %v, leads term %d, journal %d (%d synced)\n",
			n.id, n.up(), n.lost, n.idle, n.broken, n.leadTerm, n.journal.last(), n.journal.synced)
		if n.up() {
			fmt.Fprintf(&b, "  %+v\n  %+v\n", n.core.raft.BasicStatus(), n.core.Status())
		}
	}
	return b.String()
}

// play runs events until the given time, the first violation, or until done returns true.
func (s *sim) play(until int64, done func() bool) {
	defer func() {
		if r := recover(); r != nil {
			s.fail("panic: %v\n%s", r, debug.Stack())
		}
	}()
	for events := 0; s.err == nil && len(s.queue) > 0 && s.queue[0].at <= until && !done(); events++ {
		if events == eventsMax {
			s.fail("more than %d events", eventsMax)
		}
		e := s.next()
		s.now = e.at
		e.do()
	}
	s.now = max(s.now, min(until, s.now))
}

// run plays the whole history: founding, faults, recovery and the final checks.
func (s *sim) run() error {
	s.found()
	s.play(simFaults, func() bool { return false })
	if s.err == nil {
		s.heal()
		s.play(simFaults+simMend, s.wellAgain)
	}
	if s.err == nil && !s.wellAgain() {
		s.stuck = true
		s.fail("not recovered %d s after all faults ended: %s", simMend/second, s.unwell())
	}
	if s.err == nil {
		s.judge()
	}
	if s.err != nil {
		return fmt.Errorf("seed %d: %w\n%s", s.seed, s.err, s.story())
	}
	return nil
}
