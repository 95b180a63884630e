package core

import (
	"hash/crc64"

	"go.etcd.io/raft/v3/raftpb"
)

var ecma = crc64.MakeTable(crc64.ECMA)

// simDisk is a node's data/raft in memory. After a crash of the process it has everything that was
// written. After a power cut it has everything that was synced and a random prefix of the rest.
type simDisk struct {
	base  Durable // synced
	dirty []*Write
	queue []*Write // writes that wait for the sync in progress
	busy  bool
	hung  int64 // no sync ends before this time
}

// newSimDisk returns an empty disk with a new identity, whose log starts at mark.
func newSimDisk(self Identity, mark Mark) *simDisk {
	return &simDisk{base: Durable{Self: self, Mark: mark, Heard: map[uint64]Identity{}}}
}

// steps splits writes into the records that they make in the log. A power cut may separate each of
// them from the next.
func steps(ws []*Write) []func(*Durable) {
	var all []func(*Durable)
	for _, w := range ws {
		for _, m := range w.Heard {
			all = append(all, func(d *Durable) { d.Heard[m.ID] = m.Identity })
		}
		if w.Mark != nil {
			all = append(all, func(d *Durable) { d.begin(*w.Mark) })
		}
		for _, e := range w.Entries {
			all = append(all, func(d *Durable) { d.put(e) })
		}
		if w.Hard != nil {
			all = append(all, func(d *Durable) { d.Hard = w.Hard })
		}
	}
	return all
}

// begin applies a mark to the log. Entries after it stay if they continue it.
func (d *Durable) begin(m Mark) {
	keep := d.Entries[:0:0]
	for i, e := range d.Entries {
		if e.GetIndex() == m.Index && e.GetTerm() == m.Term {
			keep = append(keep, d.Entries[i+1:]...)
		}
	}
	if m.Index == d.Mark.Index && m.Term == d.Mark.Term {
		keep = d.Entries
	}
	d.Mark, d.Entries = m, keep
}

// put appends e. It replaces the entry with the same index and all after it.
func (d *Durable) put(e *raftpb.Entry) {
	at := e.GetIndex() - d.Mark.Index // 1 is the first
	if at < 1 || at > uint64(len(d.Entries))+1 {
		panic("an entry leaves a gap in data/raft")
	}
	d.Entries = append(d.Entries[:at-1:at-1], e)
}

// crash ends the process. The disk keeps all that was passed to the kernel.
func (d *simDisk) crash(s *sim) {
	all := steps(d.dirty)
	if s.chance(50) {
		all = append(all, steps(d.queue)[:s.rnd.IntN(len(steps(d.queue))+1)]...)
	}
	d.keep(all)
}

// cutPower keeps the synced writes and a random prefix of the others.
func (d *simDisk) cutPower(s *sim) {
	all := steps(d.dirty)
	d.keep(all[:s.rnd.IntN(len(all)+1)])
}

func (d *simDisk) keep(some []func(*Durable)) {
	for _, step := range some {
		step(&d.base)
	}
	d.dirty, d.queue, d.busy = nil, nil, false
}

// open returns what a start reads. Like the real one, it first syncs what it found, so that nothing
// the node relies on is lost later.
func (d *simDisk) open() Durable {
	c := d.base
	c.Entries = append([]*raftpb.Entry(nil), c.Entries...)
	c.Heard = map[uint64]Identity{}
	for id := uint64(1); id <= simNodesMax; id++ {
		if name, ok := d.base.Heard[id]; ok {
			c.Heard[id] = name
		}
	}
	return c
}

// has reports whether the node has synced this record as record seq.
func (n *simNode) has(seq uint64, record []byte) bool {
	d := &n.disk.base
	if seq <= d.Mark.Seq {
		return seq <= n.journal.synced && string(n.journal.records[seq-1]) == string(record)
	}
	if seq <= n.journal.synced {
		return string(n.journal.records[seq-1]) == string(record)
	}
	for i := len(d.Entries) - 1; i >= 0; i-- {
		if containsRecord(d.Entries[i].GetData(), record) {
			return true
		}
	}
	return false
}

// simJournal is a node's data/journal. Record seq is records[seq-1].
type simJournal struct {
	records [][]byte
	synced  uint64
	syncing bool
}

func (j *simJournal) last() uint64 { return uint64(len(j.records)) }

// cutPower removes a random suffix of the records that were not synced.
func (j *simJournal) cutPower(s *sim) {
	j.records = j.records[:j.synced+uint64(s.rnd.IntN(int(j.last()-j.synced)+1))]
	j.syncing = false
}

// chainOf continues chain over records. It is a second implementation of Position.After.
func chainOf(chain uint64, records [][]byte) uint64 {
	for _, r := range records {
		chain = crc64.Update(chain, ecma, r)
	}
	return chain
}
