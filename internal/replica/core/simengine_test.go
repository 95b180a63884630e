package core

import (
	"bytes"
	"encoding/binary"
	"maps"
)

// A record has its seq, its time, the ref of its command, and a random number, so that records of
// two histories always differ.
const recordHead = 32

func recordOf(s *sim, seq uint64, at int64, ref uint64) []byte {
	r := make([]byte, recordHead+s.rnd.IntN(s.weather.recordPad+1))
	binary.LittleEndian.PutUint64(r, seq)
	binary.LittleEndian.PutUint64(r[8:], uint64(at))
	binary.LittleEndian.PutUint64(r[16:], ref)
	binary.LittleEndian.PutUint64(r[24:], s.rnd.Uint64())
	return r
}

func recordSeq(r []byte) uint64 { return binary.LittleEndian.Uint64(r) }
func recordTime(r []byte) int64 { return int64(binary.LittleEndian.Uint64(r[8:])) }
func recordRef(r []byte) uint64 { return binary.LittleEndian.Uint64(r[16:]) }

func containsRecord(entry, record []byte) bool { return bytes.Contains(entry, record) }

// simState is the state of an exchange after a number of records: the refs that are done and the
// last time.
type simState struct {
	seq  uint64
	time int64
	refs map[uint64]uint64 // record of each ref
}

func simStateOf(records [][]byte) simState {
	st := simState{refs: map[uint64]uint64{}}
	for _, r := range records {
		st.apply(r)
	}
	return st
}

func (st *simState) apply(r []byte) {
	st.seq++
	st.time = recordTime(r)
	st.refs[recordRef(r)] = st.seq
}

// simOp is a command that appends a record under ref, or a query if ref is 0.
type simOp struct{ ref uint64 }

// simFrame is a group of commands that a client sends together and that one answer covers.
type simFrame struct {
	client  *simClient
	attempt uint64
	ops     []simOp
	floor   uint64 // highest record revealed by any answer when the frame was sent

	need  uint64   // highest record that the answer reveals
	by    uint64   // seq of a record of the leader's term whose commit confirms the answer
	round uint64   // round of reads that also confirms the answer; 0 if none was started
	seqs  []uint64 // results: the record of each command, and for queries the last record at that time
	made  [][]byte // records made by this frame
}

// simEngine is the state of a leader, including records that are not committed yet.
type simEngine struct {
	term    uint64
	refs    map[uint64]uint64
	next    uint64
	time    int64
	first   uint64 // seq of the first record in pending
	pending [][]byte
	frames  []*simFrame
}

func newSimEngine(n *simNode) *simEngine {
	return &simEngine{term: n.leadTerm, refs: maps.Clone(n.state.refs), next: n.state.seq + 1, time: n.state.time}
}

// execute runs the commands of a frame. The answer follows once it is confirmed.
func (e *simEngine) execute(n *simNode, f *simFrame) {
	s := n.s
	appended := false
	for _, op := range f.ops {
		appended = false
		seq := e.next - 1
		if op.ref != 0 {
			done, known := e.refs[op.ref]
			if seq = done; !known {
				seq = e.append(n, f, op.ref)
				appended = true
			}
		}
		f.seqs = append(f.seqs, seq)
		f.need = max(f.need, seq)
	}
	if f.by = e.next; appended {
		f.by = e.next - 1
	} else {
		f.round = n.core.Read()
	}
	s.note("frame", n.id, f.client.id, f.need)
	e.frames = append(e.frames, f)
	e.propose(n)
	e.answer(n)
}

// append makes a record after those that may not be committed yet. Times never decrease, even if
// the clock does.
func (e *simEngine) append(n *simNode, f *simFrame, ref uint64) uint64 {
	e.time = max(e.time, n.s.now+n.wall)
	r := recordOf(n.s, e.next, e.time, ref)
	if len(e.pending) == 0 {
		e.first = e.next
	}
	e.pending = append(e.pending, r)
	e.refs[ref] = e.next
	f.made = append(f.made, r)
	e.next++
	return e.next - 1
}

// leads reports whether n still leads the term in which e started.
func (e *simEngine) leads(n *simNode) bool { return n.leadTerm == e.term || n.s.plant.noFence }

// propose passes the collected records to the core.
func (e *simEngine) propose(n *simNode) {
	if len(e.pending) == 0 || !e.leads(n) || !n.core.CanPropose() {
		return
	}
	batch := e.pending
	e.pending = nil
	if err := n.core.Propose(e.first, batch); err != nil {
		n.stepDown("proposal refused")
	}
}

// answer answers the frames whose results may be revealed.
func (e *simEngine) answer(n *simNode) {
	if e == nil || !e.leads(n) {
		return
	}
	e.propose(n)
	if !n.up() {
		return
	}
	waits := e.frames[:0]
	for _, f := range e.frames {
		committed := f.need <= n.state.seq
		confirmed := f.by <= n.state.seq || f.round != 0 && f.round <= n.confirmed || n.s.plant.noConfirm
		if !committed || !confirmed {
			waits = append(waits, f)
			continue
		}
		n.s.judgeAnswer(n, f)
		f.client.answer(f)
	}
	e.frames = waits
}

// simClient sends frames, and repeats them under the same refs until they are answered.
type simClient struct {
	s        *sim
	id       uint64
	at       int // index in s.nodes of the presumed leader
	refs     uint64
	frame    []simOp
	old      []uint64 // refs of commands that the client gave up, which may or may not have been executed
	attempt  uint64
	answered int
	quiet    bool
}

// send makes one attempt to have the frame answered.
func (c *simClient) send() {
	s := c.s
	c.attempt++
	attempt := c.attempt
	if s.healing && c.answered >= 3 && c.frame == nil {
		c.quiet = true
		return
	}
	if c.frame == nil {
		c.compose()
	}
	n := s.nodes[c.at%len(s.nodes)]
	f := &simFrame{client: c, attempt: attempt, ops: c.frame, floor: s.truth.revealed}
	s.after(s.between(50, 2000), func() {
		if !n.up() {
			c.next(attempt)
			return
		}
		n.post(func() {
			if n.engine == nil {
				c.next(attempt)
				return
			}
			n.engine.execute(n, f)
		})
	})
	s.after(answerWithin, func() {
		if c.attempt == attempt && s.chance(25) {
			c.giveUp()
		}
		c.next(attempt)
	})
}

// wander sends queries to random nodes and does not wait for answers.
func (c *simClient) wander() {
	s := c.s
	n := s.any()
	f := &simFrame{client: c, ops: []simOp{{}}, floor: s.truth.revealed}
	n.post(func() {
		if n.engine != nil {
			n.engine.execute(n, f)
		}
	})
	if !s.healing {
		s.after(s.between(millisecond, 15*millisecond), c.wander)
	}
}

// compose makes a frame of new refs, old refs and queries.
func (c *simClient) compose() {
	for range 1 + c.s.rnd.IntN(3) {
		switch {
		case c.s.chance(60):
			c.refs++
			c.frame = append(c.frame, simOp{c.id<<32 | c.refs})
		case len(c.old) > 0 && c.s.chance(50):
			c.frame = append(c.frame, simOp{c.old[c.s.rnd.IntN(len(c.old))]})
		default:
			c.frame = append(c.frame, simOp{})
		}
	}
}

func (c *simClient) giveUp() {
	for _, op := range c.frame {
		if op.ref != 0 {
			c.old = append(c.old, op.ref)
		}
	}
	c.frame = nil
}

// next tries another node a little later.
func (c *simClient) next(attempt uint64) {
	if c.attempt != attempt {
		return
	}
	c.attempt++
	attempt = c.attempt
	c.at++
	if c.s.chance(50) {
		c.at = c.s.rnd.IntN(len(c.s.nodes))
	}
	c.s.after(c.s.between(millisecond, 30*millisecond), func() {
		if c.attempt == attempt {
			c.send()
		}
	})
}

// answer delivers an answer to the client, which then continues.
func (c *simClient) answer(f *simFrame) {
	s := c.s
	s.after(s.between(50, 2000), func() {
		if f.attempt == 0 || c.attempt != f.attempt {
			return
		}
		c.attempt++
		c.answered++
		c.frame = nil
		attempt := c.attempt
		rest := s.between(0, s.weather.think)
		if s.chance(5) {
			rest = s.between(0, 2*second) // so that at times nothing is in progress
		}
		s.after(rest, func() {
			if c.attempt == attempt {
				c.send()
			}
		})
	})
}
