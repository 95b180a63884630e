package core

import (
	"errors"

	"go.etcd.io/raft/v3/raftpb"
)

// simNode is a machine with its disks, its clock, and the process that runs on it, if any.
type simNode struct {
	s       *sim
	id      uint64
	disk    *simDisk
	journal *simJournal
	lost    bool // the disk is a new one, so the cluster must refuse the node
	idle    bool // the machine is no longer a member
	broken  error
	flip    bool                // a byte of the node's log changes at the next start
	flipped bool                // a byte was changed, so the node may be broken
	confs   []*raftpb.ConfState // configurations that the node had; used only by the checks
	before  *simNode            // the node's disks before they were lost; used only by the checks

	core    *Node    // nil while no process runs
	epoch   int      // number of the process; actions of earlier processes are dropped
	stopped int64    // stopped by SIGSTOP until this time
	held    []func() // disk and timer events that wait for SIGCONT, in order
	mail    []func() // messages and frames that wait for SIGCONT, in any order
	fit     bool     // the node may lead, since its Postgres is available
	tick    int64    // length of a tick by this machine's clock
	wall    int64    // offset of the machine's wall clock
	met     map[uint64]Identity
	refused map[uint64]Identity

	state     simState
	applying  bool
	toApply   []simApply
	leadTerm  uint64 // term that the node leads; 0 if it does not lead
	leadAt    Position
	engine    *simEngine
	confirmed uint64
}

// simApply holds the committed records of one Output.
type simApply struct {
	commits []Commit
	index   uint64
}

// name returns the identity of the disk that n has now.
func (n *simNode) name() Identity { return n.disk.base.Self }

func (n *simNode) up() bool { return n.core != nil }

// start starts a process with the content of the disks.
func (n *simNode) start() {
	s := n.s
	if n.up() || n.broken != nil {
		return
	}
	if s.now < n.disk.hung {
		s.after(n.disk.hung-s.now, n.start)
		return
	}
	n.epoch++
	d := n.disk.open()
	n.corrupt(&d)
	have := n.journal.last()
	if s.plant.appliedTwice && have > d.Mark.Seq && have > 0 {
		have--
	}
	s.note("start", n.id, d.Mark.Index, have)
	n.state = simStateOf(n.journal.records)
	n.met, n.refused = map[uint64]Identity{}, map[uint64]Identity{}
	c, err := New(Options{ID: n.id, Durable: d, Journal: have, Random: s,
		KeepBytes: s.weather.keepBytes, LogBytesMax: s.weather.logBytesMax})
	if err != nil {
		n.breakDown(err)
		return
	}
	n.core = c
	c.MayCampaign(false) // the node may not campaign until the state is loaded
	n.do(func() {})
	n.later(0, func() { n.core.JournalSynced(n.journal.synced) })
	n.later(s.between(0, s.weather.load), func() { n.core.MayCampaign(n.fit) })
	n.syncJournal()
	n.scheduleTick()
}

// input runs an action in a process. It waits while the process is stopped, and is dropped once the
// process has ended.
func (n *simNode) input(epoch int, do func()) {
	switch {
	case n.epoch != epoch || !n.up():
	case n.s.now < n.stopped:
		n.held = append(n.held, func() { n.input(epoch, do) })
	default:
		n.do(do)
	}
}

// post is input from the network. It is dropped if no process runs. While the process is stopped it
// waits, and then runs in any order.
func (n *simNode) post(do func()) {
	switch {
	case !n.up():
	case n.s.now < n.stopped:
		if epoch := n.epoch; len(n.mail) < mailMax {
			n.mail = append(n.mail, func() { n.input(epoch, do) })
		}
	default:
		n.do(do)
	}
}

func (n *simNode) do(do func()) {
	do()
	if n.up() {
		n.drain()
	}
}

// later schedules input in d.
func (n *simNode) later(d int64, do func()) {
	epoch := n.epoch
	n.s.after(d, func() { n.input(epoch, do) })
}

func (n *simNode) scheduleTick() {
	n.later(n.tick, func() {
		n.core.Tick()
		n.scheduleTick()
	})
}

// stop sends SIGSTOP, and SIGCONT in d.
func (n *simNode) stop(d int64) {
	if !n.up() {
		return
	}
	n.s.note("stopped", n.id, uint64(d), 0)
	n.stopped = n.s.now + d
	epoch := n.epoch
	n.s.after(d, func() {
		if n.epoch == epoch {
			n.resume()
		}
	})
}

// resume processes the messages and ticks that have waited. Messages run in any order among themselves and relative to
// the rest.
func (n *simNode) resume() {
	if n.s.now < n.stopped {
		return
	}
	held, mail := n.held, n.mail
	n.held, n.mail = nil, nil
	n.s.rnd.Shuffle(len(mail), func(i, j int) { mail[i], mail[j] = mail[j], mail[i] })
	for len(held)+len(mail) > 0 {
		from := &held
		if n.s.rnd.IntN(len(held)+len(mail)) >= len(held) {
			from = &mail
		}
		do := (*from)[0]
		*from = (*from)[1:]
		do()
	}
}

// end ends the process and discards its memory.
func (n *simNode) end() {
	n.epoch++
	n.core, n.engine, n.leadTerm = nil, nil, 0
	n.toApply, n.applying, n.held, n.mail = nil, false, nil, nil
	n.stopped, n.confirmed = 0, 0
	n.journal.syncing = false
}

// kill ends the process with kill -9. It starts again in d.
func (n *simNode) kill(d int64) {
	if !n.up() {
		return
	}
	n.end()
	n.disk.crash(n.s)
	n.s.after(d, n.start)
}

// cutPower discards what the disks have not synced.
func (n *simNode) cutPower(d int64) {
	n.s.note("power cut", n.id, n.journal.synced, n.journal.last())
	up := n.up()
	n.end()
	n.disk.cutPower(n.s)
	n.journal.cutPower(n.s)
	if up {
		n.s.after(d, n.start)
	}
}

// stepDown is the reaction of a deposed node: it answers nothing more and restarts.
func (n *simNode) stepDown(why string) {
	n.s.note(why, n.id, n.leadTerm, 0)
	if n.s.plant.noStepDown {
		n.leadTerm = 0
		return
	}
	n.kill(n.s.between(millisecond, 300*millisecond))
}

// breakDown is the reaction of a broken node: it stays down until it is replaced.
func (n *simNode) breakDown(err error) {
	n.s.note("broken", n.id, 0, 0)
	n.broken = err
	n.end()
	n.disk.crash(n.s)
	n.s.judgeBroken(n, err)
}

// drain handles the output of the core.
func (n *simNode) drain() {
	out := n.core.Output()
	if out.Broken != nil {
		n.breakDown(out.Broken)
		return
	}
	if out.Deposed {
		n.stepDown("deposed")
		if !n.up() {
			return
		}
	}
	if out.Write != nil {
		n.write(out.Write)
	}
	for _, m := range out.Send {
		n.s.send(n, m)
	}
	if len(out.Commits) > 0 || out.Index > 0 {
		n.s.judgeCommits(n, out.Commits)
		n.toApply = append(n.toApply, simApply{out.Commits, out.Index})
		n.apply()
	}
	n.s.judgeMemory(n)
	n.s.judgeConf(n)
	if out.Fetch != nil {
		n.fetch(*out.Fetch)
	}
	if out.Leads {
		st := n.core.Status()
		n.leadTerm, n.leadAt = st.Term, st.Position
		n.s.judgeLeads(n)
		n.takeOver()
	}
	if out.Confirmed > n.confirmed {
		n.confirmed = out.Confirmed
		n.engine.answer(n)
	}
}

// write passes w to data/raft.
func (n *simNode) write(w *Write) {
	if p := n.s.plant; p.voteNotSynced || p.answerBeforeSync {
		w = n.answerEarly(w)
	}
	n.disk.queue = append(n.disk.queue, w)
	if !n.disk.busy {
		n.syncDisk()
	}
}

// answerEarly is the bug that messages do not wait for the sync of w.
func (n *simNode) answerEarly(w *Write) *Write {
	var early []*raftpb.Message
	c := *w
	c.After = nil
	for _, m := range w.After {
		if vote := m.GetType() == raftpb.MsgVoteResp; vote && n.s.plant.voteNotSynced || !vote && n.s.plant.answerBeforeSync {
			early = append(early, m)
		} else {
			c.After = append(c.After, m)
		}
	}
	if len(early) > 0 {
		n.later(0, func() { n.written(early) })
	}
	return &c
}

// syncDisk starts a sync of all queued writes.
func (n *simNode) syncDisk() {
	d, s := n.disk, n.s
	d.busy, d.dirty, d.queue = true, d.queue, nil
	took := s.weather.sync(s)
	if s.now+took < d.hung {
		took = d.hung - s.now
	}
	epoch := n.epoch
	s.after(took, func() { n.synced(epoch, d) })
}

func (n *simNode) synced(epoch int, d *simDisk) {
	if n.epoch != epoch || n.disk != d {
		return
	}
	if n.s.now < d.hung {
		n.s.after(d.hung-n.s.now, func() { n.synced(epoch, d) })
		return
	}
	var after []*raftpb.Message
	for _, w := range d.dirty {
		after = append(after, w.After...)
	}
	for _, step := range steps(d.dirty) {
		step(&d.base)
	}
	d.dirty, d.busy = nil, false
	if len(d.queue) > 0 {
		n.syncDisk()
	}
	n.input(epoch, func() { n.written(after) })
}

// written sends the messages that waited for a sync, and passes those for the node itself to the
// core.
func (n *simNode) written(after []*raftpb.Message) {
	var own []*raftpb.Message
	for _, m := range after {
		if m.GetTo() == n.id {
			own = append(own, m)
		} else {
			n.s.send(n, m)
		}
	}
	n.core.Written(own)
}

// apply appends committed records to data/journal and applies them to the state a little later.
func (n *simNode) apply() {
	if n.applying || len(n.toApply) == 0 {
		return
	}
	n.applying = true
	n.later(n.s.between(20, n.s.weather.slowApply), func() {
		n.applying = false
		some := n.toApply
		n.toApply = nil
		for _, a := range some {
			for _, c := range a.commits {
				n.append(c)
			}
			if a.index > 0 {
				n.core.Applied(a.index)
			}
		}
		n.syncJournal()
		n.takeOver()
		n.engine.answer(n)
		n.apply()
	})
}

func (n *simNode) append(c Commit) {
	if c.First != n.journal.last()+1 && !n.s.plant.appliedTwice {
		n.s.fail("node %d: a commit starts with record %d, but the journal ends with %d", n.id, c.First, n.journal.last())
	}
	for _, r := range c.Records {
		n.journal.records = append(n.journal.records, r)
		n.state.apply(r)
	}
	n.s.judgeJournal(n, len(c.Records))
}

// syncJournal starts a sync of data/journal.
func (n *simNode) syncJournal() {
	j := n.journal
	if j.syncing || j.synced == j.last() {
		return
	}
	if n.s.plant.compactedTooEarly {
		n.later(0, func() { n.core.JournalSynced(j.last()) })
	}
	j.syncing = true
	epoch := n.epoch
	var done func()
	to := j.last()
	done = func() {
		if n.epoch != epoch || n.journal != j {
			return
		}
		if n.s.now < n.disk.hung {
			n.s.after(n.disk.hung-n.s.now, done)
			return
		}
		j.syncing, j.synced = false, max(j.synced, to)
		n.input(epoch, func() {
			n.core.JournalSynced(to)
			n.syncJournal()
		})
	}
	n.s.after(n.s.between(millisecond, 30*millisecond), done)
}

var errFetch = errors.New("the peer does not answer")

// fetch copies records from a peer's journal over the network, once its own journal has all earlier
// commits.
func (n *simNode) fetch(f Fetch) {
	s := n.s
	n.later(s.between(millisecond, 40*millisecond), func() {
		if n.applying || len(n.toApply) > 0 {
			n.fetch(f)
			return
		}
		p := s.node(f.Peer)
		if p == nil || !p.up() || s.now < p.stopped || s.net.cut[p.id][n.id] || s.net.cut[n.id][p.id] ||
			p.journal.last() < f.To.Seq || s.chance(10) {
			s.note("fetch fails", n.id, f.From.Seq, f.To.Seq)
			n.core.Fetched(f, Position{}, errFetch)
			return
		}
		s.note("fetch", n.id, f.From.Seq, f.To.Seq)
		have := n.journal.last()
		if have < f.From.Seq {
			s.fail("node %d: a fetch starts after record %d, but the journal ends with %d", n.id, f.From.Seq, have)
			return
		}
		some := p.journal.records[f.From.Seq:f.To.Seq]
		var err error
		if s.chance(15) { // the connection breaks
			some, err = some[:s.rnd.IntN(len(some)+1)], errFetch
		}
		for _, r := range some[min(have-f.From.Seq, uint64(len(some))):] {
			n.journal.records = append(n.journal.records, r)
			n.state.apply(r)
		}
		s.judgeJournal(n, int(n.journal.last()-have))
		if err != nil {
			n.core.Fetched(f, Position{Seq: n.journal.last()}, err)
			n.syncJournal()
			return
		}
		n.later(s.between(millisecond, 40*millisecond), func() {
			n.journal.synced = max(n.journal.synced, n.journal.last())
			own := n.journal.records[f.From.Seq:f.To.Seq]
			n.core.Fetched(f, Position{f.To.Seq, chainOf(f.From.Chain, own)}, nil)
			n.core.JournalSynced(n.journal.synced)
		})
	})
}

// takeOver starts an engine once this node leads and its journal has all earlier records.
func (n *simNode) takeOver() {
	if n.leadTerm == 0 || n.state.seq < n.leadAt.Seq {
		return
	}
	if n.engine != nil {
		return
	}
	n.s.note("engine", n.id, n.leadTerm, n.state.seq)
	n.engine = newSimEngine(n)
}
