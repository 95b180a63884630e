package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"outcry/internal/replica"
)

const (
	// compareEvery is how often nodes compare their digests, and how long a state has to rest
	// before its digest is worked out for that.
	compareEvery = 5 * time.Second

	// digestRecords is after how many records those that follow work out a digest in any case:
	// at the same records everywhere.
	digestRecords = 1_000_000

	// digestsKept is how many digests a node can compare: those of the newest records that it
	// has one of.
	digestsKept = 8

	// compareTimeout bounds how long a node waits for the digests of another one.
	compareTimeout = 2 * time.Second

	// leaderAgain lies between two digests that a leader works out for others.
	leaderAgain = time.Minute
)

// seqDigest is the digest of the state after a record.
type seqDigest struct {
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"`
}

// digestRequest is what a node asks another one. Needed says that digests differ, and that a
// leader's would tell whose is wrong. With MayLead the answer is why the other node cannot lead, as a string; one of an
// older program answers with its digests all the same.
type digestRequest struct {
	Needed  bool `json:"needed"`
	MayLead bool `json:"may_lead,omitempty"`
}

// comparison is what a node knows of the digests of others.
type comparison struct {
	differs  atomic.Bool  // those of some node differ from this one's
	workedAt atomic.Int64 // when this node worked one out as a leader, for others, in nanoseconds
	rested   uint64       // seq at the last look; of compare's goroutine
}

// last returns the digest that was worked out last.
func (d *digests) last() (digest string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.digest, d.seq
}

// keep notes a digest, unless a newer one is known.
func (d *digests) keep(digest string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if seq < d.seq {
		return
	}
	d.digest, d.seq = digest, seq
	if !slices.ContainsFunc(d.recent, func(s seqDigest) bool { return s.Seq == seq }) {
		d.recent = append(d.recent, seqDigest{seq, digest})
	}
	if len(d.recent) > digestsKept {
		d.recent = slices.Delete(d.recent, 0, len(d.recent)-digestsKept)
	}
}

// known returns the digests that can be compared.
func (d *digests) known() []seqDigest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.recent)
}

// noteDigest works out the digest of a node that follows where all of them do.
func (m *member) noteDigest(seq uint64) {
	if seq%digestRecords == 0 {
		m.workOut(context.Background())
	}
}

// answer answers the request of another node with the digests that this one has.
func (m *member) answer(ctx context.Context, _ uint64, request []byte) ([]byte, error) {
	var r digestRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, fmt.Errorf("a request for digests: %w", err)
	}
	if r.MayLead {
		return json.Marshal(m.unable())
	}
	if e, _ := m.view(); r.Needed && e != nil {
		last, now := m.compared.workedAt.Load(), time.Now().UnixNano()
		if now-last > int64(leaderAgain) && m.compared.workedAt.CompareAndSwap(last, now) {
			m.workOut(ctx)
		}
	}
	return json.Marshal(m.digest.known())
}

// compare compares this node's digests with those of the others, until ctx ends. A node
// whose state differs from that of a majority has another history, and stays down.
func (m *member) compare(ctx context.Context) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		m.digestAtRest(ctx)
		own := m.digest.known()
		others, members := m.askDigests(ctx, digestRequest{Needed: m.compared.differs.Load()})
		differs, wrong := judgeDigests(own, others, members)
		if wrong != nil {
			m.replica.Load().Break(wrong)
			return
		}
		if differs && !m.compared.differs.Load() {
			m.server.log.Error("the state of another node differs from this one's after the same record: "+
				"one of them is wrong; run outcry verify on both", "digests", own, "others", others)
		}
		m.compared.differs.Store(differs)
	}
}

// digestAtRest works out the digest of a node that follows, if no record has come since the
// last look.
func (m *member) digestAtRest(ctx context.Context) {
	e, standby := m.view()
	if e != nil {
		return // it works for those who ask only
	}
	seq := standby.Seq()
	rests := seq == m.compared.rested
	m.compared.rested = seq
	if !rests {
		return
	}
	if known, of := m.digest.last(); of != seq || known == "" {
		m.workOut(ctx)
	}
}

// askDigests returns the digests of the other members, as far as they answer, and how many
// members there are.
func (m *member) askDigests(ctx context.Context, r digestRequest) (all [][]seqDigest, members int) {
	status := m.replica.Load().Status()
	request, err := json.Marshal(r)
	if err != nil {
		return nil, 0 // it always can be written
	}
	for i := range status.Peers {
		p := &status.Peers[i]
		if !p.Known {
			continue
		}
		members++
		if p.ID == status.Node {
			continue
		}
		if theirs, err := askDigests(ctx, m.replica.Load(), p.ID, request); err == nil {
			all = append(all, theirs)
		}
	}
	return all, members
}

// askDigests asks one node.
func askDigests(ctx context.Context, r *replica.Replica, node uint64, request []byte) (theirs []seqDigest, err error) {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	answer, err := r.Ask(ctx, node, request)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(answer, &theirs)
	return theirs, err
}

// judgeDigests reports whether those of any node differ from own after the same record. The
// error says that a majority of the members agrees on another digest than this node's.
func judgeDigests(own []seqDigest, others [][]seqDigest, members int) (differs bool, wrong error) {
	for _, mine := range own {
		votes := map[string]int{}
		for _, theirs := range others {
			for _, one := range theirs {
				if one.Seq == mine.Seq && one.Digest != mine.Digest {
					differs = true
					votes[one.Digest]++
				}
			}
		}
		for digest, n := range votes {
			if n > members/2 {
				return true, fmt.Errorf("its state after record %d has the digest %s, and that of %d of %d nodes is %s",
					mine.Seq, mine.Digest, n, members, digest)
			}
		}
	}
	return differs, nil
}
