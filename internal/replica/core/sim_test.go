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
	simFaults    = 12 * second // while there are faults
	simMend      = 60 * second // in which all has to be well again, at most
	mailMax      = 4096        // messages that wait for a stopped process
	eventsMax    = 3_000_000
	tickLen      = 10 * millisecond
	answerWithin = 500 * millisecond // before a client tries the next node
)

// simEvent is something that happens at a moment; order decides between those of one.
type simEvent struct {
	at    int64
	order uint64
	do    func()
}

// traced is a line of the history, made into text only when somebody reads it.
type traced struct {
	at   int64
	what string
	node uint64
	a, b uint64
}

// trace is the last of what happened.
type trace struct {
	last  [traceLen]traced
	lines uint64
}

// sim is one history: everything that happens comes out of its seed.
type sim struct {
	seed  uint64
	rnd   *rand.Rand
	now   int64
	order uint64
	queue []simEvent
	hash  uint64
	trace [2]trace // events, messages
	err   error

	plant   plant
	weather weather
	healing bool
	stuck   bool       // it was not well again
	voters  int64      // until then, power cuts seek nodes that vote
	nodes   []*simNode // of rising id
	net     simNet
	clients []*simClient
	truth   simTruth
	ops     simOperator
	mark    Mark // where the founders' logs begin
}

// plant is a bug that the simulation has to find.
type plant struct {
	voteNotSynced, answerBeforeSync, noFence, noStepDown, chainOff, appliedTwice bool
	compactedTooEarly, learnerCounted, lostDiskVotes, noConfirm                  bool
}

func newSim(seed uint64, p plant) *sim {
	s := &sim{seed: seed, rnd: rand.New(rand.NewPCG(seed, 0x6f757463727921)), plant: p, hash: 14695981039346656037}
	return s
}

// Read makes sim the randomness that package raft draws its timeouts from.
func (s *sim) Read(p []byte) (int, error) {
	var b [8]byte
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(b[:], s.rnd.Uint64())
		copy(p[i:], b[:])
	}
	return len(p), nil
}

// chance is true in percent of 100 cases.
func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

// between is a random time from a to b.
func (s *sim) between(a, b int64) int64 { return a + s.rnd.Int64N(b-a+1) }

// after has do happen in d.
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

// next takes the earliest event.
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

// note is a line of the history, and part of its hash.
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

// fail ends the history at its first violation.
func (s *sim) fail(format string, arguments ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, arguments...)
	}
}

// story is the end of the history, to be read by a person.
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

// play runs until the moment comes, the history fails, or done is true.
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

// run is the whole history: a cluster is founded, has faults, is mended, and is looked at.
func (s *sim) run() error {
	s.found()
	s.play(simFaults, func() bool { return false })
	if s.err == nil {
		s.heal()
		s.play(simFaults+simMend, s.wellAgain)
	}
	if s.err == nil && !s.wellAgain() {
		s.stuck = true
		s.fail("not well again %d s after all faults ended: %s", simMend/second, s.unwell())
	}
	if s.err == nil {
		s.judge()
	}
	if s.err != nil {
		return fmt.Errorf("seed %d: %w\n%s", s.seed, s.err, s.story())
	}
	return nil
}
