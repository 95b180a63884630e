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
	// compareEvery is how often nodes compare their digests, and how long a follower's state must be unchanged
	// before its digest is computed for a comparison.
	compareEvery = 5 * time.Second

	// digestRecords is the interval, in records, at which followers always compute a digest, so that all of
	// them have digests after the same records.
	digestRecords = 1_000_000

	// digestsKept is how many of its newest digests a node keeps for comparison.
	digestsKept = 8

	// compareTimeout bounds how long a node waits for the digests of another node.
	compareTimeout = 2 * time.Second

	// leaderAgain is the shortest time between two digests that a leader computes for other nodes.
	leaderAgain = time.Minute
)

// seqDigest is the digest of the state after record Seq.
type seqDigest struct {
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"`
}

// digestRequest is a node's request to another node. Needed means that digests differ, and asks a leader to compute
// its digest, to find out which node is wrong. With MayLead the answer is a string: why the other node cannot lead,
// or "". A node of an older version ignores MayLead and answers with its digests.
type digestRequest struct {
	Needed  bool `json:"needed"`
	MayLead bool `json:"may_lead,omitempty"`
}

// comparison is the result of comparing this node's digests with those of the other nodes.
type comparison struct {
	differs  atomic.Bool  // the digests of some node differ from this node's
	workedAt atomic.Int64 // when this node last computed a digest for others as the leader, in Unix nanoseconds
	rested   uint64       // seq at the last check; only compare's goroutine uses it
}

// last returns the digest that was computed last, and its record.
func (d *digests) last() (digest string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.digest, d.seq
}

// keep stores a digest, unless one of a newer record is stored.
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

// known returns the stored digests.
func (d *digests) known() []seqDigest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.recent)
}

// noteDigest computes the digest of a follower after every digestRecords records, which are the same on all
// nodes.
func (m *member) noteDigest(seq uint64) {
	if seq%digestRecords == 0 {
		m.workOut(context.Background())
	}
}

// answer replies to another node's request with this node's digests, or with why it cannot lead.
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

// compare compares this node's digests with those of the other nodes until ctx ends. If a majority agrees
// on a different digest, this node has a different history: it is marked broken and stays down.
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

// digestAtRest computes the digest of a follower if no record has been applied since the last check.
func (m *member) digestAtRest(ctx context.Context) {
	e, standby := m.view()
	if e != nil {
		return // a leader computes digests only when another node asks
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

// askDigests returns the digests of the other members that answer, and the number of members.
func (m *member) askDigests(ctx context.Context, r digestRequest) (all [][]seqDigest, members int) {
	status := m.replica.Load().Status()
	request, err := json.Marshal(r)
	if err != nil {
		return nil, 0 // cannot happen: the request can always be encoded
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

// askDigests asks one node for its digests.
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

// judgeDigests reports whether a digest of any other node differs from this node's digest after the same
// record. The error says that a majority of the members agrees on a digest other than this node's.
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
