package journal

import "fmt"

// claimBytesMax is the largest room, in bytes, that one ClaimMany may set aside. It limits the disk space of the
// segments that are made for one call.
const claimBytesMax = 1 << 30

// ClaimMany is Claim for several records of up to payload bytes each, all or none. Append each with AppendMany, and
// return unused ones with Unclaim. ClaimMany does not block. If it returns a non-nil channel, nothing is set aside yet
// because segments are still being made: once the channel is closed, the caller tries again, or calls Forgo. The
// errors are those of Claim; ErrTooLarge is also returned if the sum exceeds the limit.
func (j *Journal) ClaimMany(records, payload int) (wait <-chan struct{}, err error) {
	each := charge(recordBytes(payload))
	need := int64(records) * each
	if each > j.room.segment-j.room.reserve || need > claimBytesMax {
		return nil, fmt.Errorf("%w: %d records of %d bytes; the limits are %d bytes for one, and %d for all",
			ErrTooLarge, records, payload, j.ClaimBytesMax(), claimBytesMax/2)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &j.room
	ahead := r.ahead
	r.ahead = nil
	switch noRoom := r.err(); {
	case j.err != nil:
		return nil, j.err
	case j.closing:
		return nil, ErrClosed
	case noRoom != nil:
		return nil, noRoom
	case r.free()-need >= r.reserve:
		r.charged += need
		r.many += need
		r.wanted = 0
		wakeUp(j.allocator.recheck)
		return nil, nil
	case ahead != nil:
		r.wanted = 0
		return nil, fmt.Errorf("%w: %w", ErrNoRoom, ahead)
	}
	r.wanted = max(r.wanted, need)
	wakeUp(j.allocator.recheck)
	if r.grown == nil {
		r.grown = make(chan struct{})
	}
	return r.grown, nil
}

// Forgo cancels a ClaimMany that returned a channel: the caller will not try again.
func (j *Journal) Forgo() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.wanted, j.room.ahead = 0, nil
	wakeUp(j.allocator.recheck)
}

// AppendMany is AppendClaimed for a record that was claimed with ClaimMany; claimed is the argument
// payload of that ClaimMany.
func (j *Journal) AppendMany(payload []byte, claimed int) (uint64, error) {
	paid := charge(recordBytes(claimed))
	return j.append(payload, paid, paid)
}

// Unclaim returns the room of records that were claimed with ClaimMany but not appended.
func (j *Journal) Unclaim(records, payload int) {
	back := int64(records) * charge(recordBytes(payload))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.charged -= back
	j.room.many -= back
	wakeUp(j.allocator.recheck)
	j.wakeClaims()
}

// wakeClaims wakes all that wait for room. The caller holds mu.
func (j *Journal) wakeClaims() {
	j.space.Broadcast()
	if j.room.grown != nil {
		close(j.room.grown)
		j.room.grown = nil
	}
}

// Results of due: what the allocator must create next.
const (
	nothing = iota
	theNext // the next segment: the journal will need it soon
	oneMore // a further segment, for a ClaimMany
)

// due returns what the allocator must create now: nothing, theNext or oneMore.
func (j *Journal) due() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &j.room
	switch {
	case r.spares <= 0:
		return theNext
	case r.spares < r.target(),
		r.wanted > 0 && r.free() < r.wanted+r.reserve && r.spares*r.segment < claimBytesMax+2*r.segment:
		return oneMore
	}
	return nothing
}

// target returns how many spares there should be: one, plus those for ClaimMany, so that a large
// claim does not make other callers wait.
func (r *room) target() int64 {
	if r.segment == 0 {
		return 1
	}
	return 1 + (r.many+r.wanted+r.segment/2)/r.segment
}

// surplus reports whether there are more spares than needed.
func (j *Journal) surplus() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.room.surplus()
}

func (r *room) surplus() bool { return r.spares > r.target() && r.free()-r.segment >= r.reserve }

// dropSpare removes one surplus spare from the count and reports whether there was one. undropSpare
// reverts that.
func (j *Journal) dropSpare() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.room.surplus() {
		return false
	}
	j.room.spares--
	return true
}

func (j *Journal) undropSpare() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.spares++
}

// madeSpare records that the next segment is ready or, if err is not nil, why it could not be made.
func (j *Journal) madeSpare(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.room.spares++
	}
	j.recordRoom(byAllocator, err)
}

// failAhead records why no further segment could be made for the waiting ClaimMany, if there is one.
// Only that ClaimMany fails with the error.
func (j *Journal) failAhead(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.room.wanted > 0 {
		j.room.ahead, j.room.wanted = err, 0
	}
	j.wakeClaims()
}
