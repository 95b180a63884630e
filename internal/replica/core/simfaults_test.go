package core

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// weather holds the parameters that a seed determines: which faults happen, how often, and how slow disks, network and
// clocks are.
type weather struct {
	name        string
	nodes       int
	faults      []fault
	every       int64 // maximum time between two faults
	think       int64 // maximum time that a client waits between two frames
	recordPad   int   // maximum size of a record without its head
	keepBytes   int
	logBytesMax int
	slowDisk    int64 // maximum time of an ordinary sync
	slowApply   int64 // maximum time until committed records are in data/journal
	load        int64 // maximum time to load the state at start
	// alone is the number of records of a single node that grows into a cluster. 0 founds all nodes
	// together.
	alone uint64
}

// fault is one kind of fault. weight is its share in the random choice.
type fault struct {
	weight int
	do     func(s *sim)
}

func (w *weather) sync(s *sim) int64 {
	if s.chance(2) {
		return s.between(millisecond, 10*w.slowDisk)
	}
	return s.between(100, w.slowDisk)
}

// forecast draws the weather. Each kind of fault prevails for some seeds.
func (s *sim) forecast() {
	w := weather{
		nodes: 3, every: s.between(100*millisecond, second), think: s.between(millisecond, 60*millisecond),
		recordPad: s.rnd.IntN(200), keepBytes: 1 + s.rnd.IntN(20000), logBytesMax: 64 << 10,
		slowDisk: s.between(millisecond, 12*millisecond), load: s.between(millisecond, second/2),
	}
	if s.chance(50) {
		w.every = s.between(second, 3*second)
	}
	if s.chance(20) {
		w.nodes = 5
	}
	if w.slowApply = 400 * microsecond; s.chance(20) {
		w.slowApply = s.between(millisecond, second/2)
	}
	if s.chance(20) {
		w.recordPad = 4000
	}
	if s.chance(10) {
		w.alone = 1 + uint64(s.rnd.IntN(50))
	}
	if s.chance(30) {
		w.think = second / 2 // so that at times nothing is in progress
	}
	s.net.slow = s.between(200, 5*millisecond)
	if s.chance(50) {
		s.net.loss, s.net.dup = s.rnd.IntN(15), s.rnd.IntN(10)
	}
	kinds := [...]struct {
		name string
		do   func(*sim)
	}{
		{"crash", (*sim).crashOne}, {"power", (*sim).powerOne}, {"power of all", (*sim).powerAll},
		{"pause", (*sim).pauseOne}, {"partition", (*sim).partition}, {"one way", (*sim).oneWay},
		{"storm", (*sim).storm}, {"disk", (*sim).hangDisk}, {"clock", (*sim).jumpClock},
		{"transfer", (*sim).transfer}, {"lost disk", (*sim).loseDisk}, {"members", (*sim).changeMembers},
		{"flipped", (*sim).flip}, {"postgres", (*sim).postgres}, {"elections", (*sim).elections},
		{"restored", (*sim).restore},
	}
	prevails := int(s.seed % uint64(len(kinds)))
	w.name = kinds[prevails].name
	for i, k := range kinds {
		weight := s.rnd.IntN(4)
		if i == prevails {
			weight = 12
		}
		w.faults = append(w.faults, fault{weight, k.do})
	}
	s.weather = w
}

// found makes the machines of a new cluster, and its clients.
func (s *sim) found() {
	s.forecast()
	s.truth = simTruth{refs: map[uint64]uint64{}, leaders: map[uint64]uint64{}, votes: map[simVote]uint64{}}
	s.ops.s = s
	if s.weather.alone > 0 {
		s.foundAlone()
	} else {
		s.mark = s.foundingMark(uint64(s.weather.nodes))
		for id := uint64(1); id <= uint64(s.weather.nodes); id++ {
			s.addNode(id, s.mark)
		}
	}
	for id := range uint64(1 + s.rnd.IntN(4)) {
		c := &simClient{s: s, id: id + 1, at: s.rnd.IntN(len(s.nodes))}
		s.clients = append(s.clients, c)
		s.after(s.between(0, second), c.send)
	}
	s.after(second, (&simClient{s: s, id: 9}).wander)
	late := 200 * millisecond
	if s.chance(15) {
		late = 8 * second
	}
	for _, n := range s.nodes {
		s.after(s.between(0, late), n.start)
	}
	s.after(s.between(second, 2*second), s.trouble)
}

func (s *sim) addNode(id uint64, mark Mark) *simNode {
	n := &simNode{s: s, id: id, fit: true, disk: newSimDisk(s.newName(), mark), journal: &simJournal{},
		tick: s.between(tickLen*7/10, tickLen*15/10), wall: s.between(-3600*second, 3600*second)}
	s.nodes = append(s.nodes, n)
	return n
}

func (s *sim) node(id uint64) *simNode {
	if id == 0 || id > uint64(len(s.nodes)) {
		return nil
	}
	return s.nodes[id-1]
}

func (s *sim) newName() Identity {
	var i Identity
	binary.LittleEndian.PutUint64(i[:], s.rnd.Uint64()|1)
	return i
}

func address(id uint64) string { return fmt.Sprintf("node-%d:7400", id) }

func (n *simNode) address() string { return address(n.id) }

// any returns a random machine.
func (s *sim) any() *simNode { return s.nodes[s.rnd.IntN(len(s.nodes))] }

// leaderOrAny returns the leader in two of three cases, since faults of a leader can do more harm.
func (s *sim) leaderOrAny() *simNode {
	if s.chance(66) {
		for _, n := range s.nodes {
			if n.leadTerm != 0 {
				return n
			}
		}
	}
	return s.any()
}

// trouble causes a random fault and schedules the next one.
func (s *sim) trouble() {
	if s.healing {
		return
	}
	sum := 0
	for _, f := range s.weather.faults {
		sum += f.weight
	}
	at := s.rnd.IntN(sum)
	for _, f := range s.weather.faults {
		if at -= f.weight; at < 0 {
			f.do(s)
			break
		}
	}
	s.after(s.between(20*millisecond, s.weather.every), s.trouble)
}

func (s *sim) crashOne() {
	n := s.leaderOrAny()
	s.note("kill", n.id, 0, 0)
	n.kill(s.between(50*millisecond, 2*second))
}

// restore restarts a machine with the journal of another one's backup, which is necessary if the
// machine lacks records that no other node keeps.
func (s *sim) restore() {
	n, p := s.any(), s.any()
	if !n.up() || p.lost || p.broken != nil || p.journal.synced <= n.journal.last() {
		return
	}
	s.note("restored", n.id, n.journal.last(), p.journal.synced)
	n.kill(s.between(50*millisecond, second))
	n.journal = &simJournal{records: slices.Clone(p.journal.records[:p.journal.synced]), synced: p.journal.synced}
}

// elections stops the leader. For a while messages are late, and power cuts hit nodes that have just
// voted.
func (s *sim) elections() {
	s.note("elections", 0, 0, 0)
	if s.now >= s.voters {
		was := s.net.slow
		s.after(3*second, func() { s.net.slow = min(was, 5*millisecond) })
	}
	s.voters = s.now + 3*second
	s.net.slow = s.between(10*millisecond, 100*millisecond)
	if lead := s.leader(); lead != nil {
		lead.stop(s.between(500*millisecond, 2*second))
	}
}

// voted may cut the power of a node that has just voted.
func (s *sim) voted(n *simNode) {
	often := 15
	if s.now < s.voters {
		often = 80
	}
	if !s.healing && s.chance(often) {
		s.after(s.between(0, 2*millisecond), func() { n.cutPower(s.between(microsecond, 10*millisecond)) })
	}
}

func (s *sim) powerOne() { s.leaderOrAny().cutPower(s.between(100*millisecond, 2*second)) }

func (s *sim) powerAll() {
	for _, n := range s.nodes {
		n.cutPower(s.between(100*millisecond, second))
	}
}

func (s *sim) pauseOne() {
	d := s.between(200*millisecond, second)
	if s.chance(20) {
		d = s.between(second, 10*second)
	}
	s.leaderOrAny().stop(d)
}

// partition splits the machines into two groups; sometimes one machine sees both.
func (s *sim) partition() {
	side := make([]int, len(s.nodes))
	for i := range side {
		side[i] = s.rnd.IntN(2)
		if s.chance(10) {
			side[i] = 2
		}
	}
	for i, a := range s.nodes {
		for j, b := range s.nodes {
			s.net.cut[a.id][b.id] = side[i] != side[j] && side[i] < 2 && side[j] < 2
		}
	}
	s.note("partition", 0, 0, 0)
	s.after(s.between(100*millisecond, 4*second), s.connect)
}

// oneWay cuts the connection from one node to another, or to all others.
func (s *sim) oneWay() {
	from, all := s.leaderOrAny(), s.chance(50)
	other := s.any()
	in := s.chance(50)
	for _, to := range s.nodes {
		if to != from && (all || to == other) {
			if in {
				s.net.cut[to.id][from.id] = true
			} else {
				s.net.cut[from.id][to.id] = true
			}
		}
	}
	s.note("one way", from.id, 0, 0)
	s.after(s.between(100*millisecond, 4*second), s.connect)
}

func (s *sim) connect() {
	s.note("connected", 0, 0, 0)
	s.net.cut = [simNodesMax + 1][simNodesMax + 1]bool{}
}

// storm makes many messages late, lost or duplicated for a while.
func (s *sim) storm() {
	was := s.net
	s.net.loss, s.net.dup, s.net.slow = s.rnd.IntN(40), s.rnd.IntN(30), s.between(millisecond, 100*millisecond)
	s.note("storm", 0, uint64(s.net.loss), uint64(s.net.slow))
	s.after(s.between(100*millisecond, 3*second), func() {
		s.net.loss, s.net.dup, s.net.slow = min(was.loss, 15), min(was.dup, 10), min(was.slow, 5*millisecond)
	})
}

// hangDisk delays the end of syncs for a while. A leader notices after a second and transfers the
// leadership.
func (s *sim) hangDisk() {
	n := s.leaderOrAny()
	d := s.between(100*millisecond, 4*second)
	s.note("disk hangs", n.id, uint64(d), 0)
	n.disk.hung = max(n.disk.hung, s.now+d)
	n.later(second, func() {
		if n.leadTerm != 0 && s.now < n.disk.hung {
			n.core.Transfer(0)
		}
	})
}

func (s *sim) jumpClock() {
	n := s.any()
	n.wall = s.between(-3600*second, 3600*second)
	s.note("clock", n.id, uint64(n.wall), 0)
}

func (s *sim) transfer() {
	for _, n := range s.nodes {
		if n.leadTerm != 0 {
			to := uint64(s.rnd.IntN(len(s.nodes) + 1))
			s.note("transfer", n.id, to, 0)
			n.later(0, func() { n.core.Transfer(to) })
		}
	}
}

// postgres makes a node's Postgres unavailable for a while, so the node does not want to lead.
func (s *sim) postgres() {
	n := s.leaderOrAny()
	s.note("postgres away", n.id, 0, 0)
	n.postgres(false)
	s.after(s.between(100*millisecond, 2*second), func() { n.postgres(true) })
}

func (n *simNode) postgres(there bool) {
	n.fit = there
	n.later(0, func() { n.core.MayCampaign(n.fit) })
}

// heal ends all faults. The cluster must then recover by itself, or with the operator's help if a
// disk was lost.
func (s *sim) heal() {
	s.note("heal", 0, 0, 0)
	s.healing = true
	s.connect()
	s.net.loss, s.net.dup, s.net.slow = 0, 0, 2*millisecond
	for _, n := range s.nodes {
		n.disk.hung = min(n.disk.hung, s.now)
		n.stopped = 0
		n.resume()
		n.postgres(true)
		if !n.idle {
			s.after(second, n.start)
		}
	}
	for _, c := range s.clients {
		c.answered = 0
	}
}

// flip changes one byte of a committed entry on a node's disk before its next start.
func (s *sim) flip() {
	n := s.any()
	if !s.spared(n) {
		return
	}
	s.note("flip", n.id, 0, 0)
	n.flip = true
	n.kill(s.between(50*millisecond, second))
}

// corrupt changes a committed entry that the journal may not have yet.
func (n *simNode) corrupt(d *Durable) {
	if !n.flip {
		return
	}
	n.flip = false
	for i := len(d.Entries) - 1; i >= 0; i-- {
		e := d.Entries[i]
		b, err := decodeBatch(e.GetData())
		if err != nil || e.GetIndex() > d.Hard.GetCommit() {
			continue
		}
		c := proto.Clone(e).(*raftpb.Entry)
		b, _ = decodeBatch(c.GetData())
		r := b.records[n.s.rnd.IntN(len(b.records))]
		if n.s.plant.chainOff {
			forge(r)
		} else {
			r[recordHead-1] ^= 1 << n.s.rnd.IntN(8)
		}
		n.s.note("flipped", n.id, e.GetIndex(), recordSeq(r))
		d.Entries[i], n.flipped = c, true
		return
	}
}

// forge changes a record without changing its CRC, by adding the CRC's polynomial. Chains cannot
// detect this change, so it has the same effect as having no chain.
func forge(r []byte) {
	ecmaPolynomial := uint64(crc64.ECMA)
	at := r[recordHead-9 : recordHead]
	binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)^(ecmaPolynomial<<1|1))
	at[8] ^= byte(ecmaPolynomial >> 63)
}
