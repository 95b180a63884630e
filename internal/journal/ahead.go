package journal

import "fmt"

// claimBytesMax bounds what one ClaimMany sets aside, and so what the segments that are
// made ahead for it take of the disk.
const claimBytesMax = 1 << 30

// ClaimMany is Claim for several records of up to payload bytes each, all or none. Each
// is appended with AppendMany, and Unclaim gives back what is left. It does not wait: a
// channel that is not nil says that nothing is set aside yet, since segments are being
// made for it. Once that is closed, the caller tries again, or calls Forgo. The error is
// Claim's, and ErrTooLarge also if all together are too many.
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

// Forgo says that a ClaimMany which was to wait is not tried again.
func (j *Journal) Forgo() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.wanted, j.room.ahead = 0, nil
	wakeUp(j.allocator.recheck)
}

// AppendMany is AppendClaimed for one of the records that ClaimMany has set room aside
// for; claimed is the argument payload of ClaimMany.
func (j *Journal) AppendMany(payload []byte, claimed int) (uint64, error) {
	paid := charge(recordBytes(claimed))
	return j.append(payload, paid, paid)
}

// Unclaim gives back the room of records that are not appended after all.
func (j *Journal) Unclaim(records, payload int) {
	back := int64(records) * charge(recordBytes(payload))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.room.charged -= back
	j.room.many -= back
	wakeUp(j.allocator.recheck)
	j.wakeClaims()
}

// wakeClaims lets those go on who wait for room. Callers hold mu.
func (j *Journal) wakeClaims() {
	j.space.Broadcast()
	if j.room.grown != nil {
		close(j.room.grown)
		j.room.grown = nil
	}
}

// What is due for the allocator.
const (
	nothing = iota
	theNext // segment, without which the journal cannot go on
	oneMore // for a ClaimMany
)

// due returns what the allocator is to make now.
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

// target returns how many spares there should be: one, and those that a ClaimMany uses,
// so that nobody else waits on its account.
func (r *room) target() int64 {
	if r.segment == 0 {
		return 1
	}
	return 1 + (r.many+r.wanted+r.segment/2)/r.segment
}

// surplus reports whether there is a spare too many.
func (j *Journal) surplus() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.room.surplus()
}

func (r *room) surplus() bool { return r.spares > r.target() && r.free()-r.segment >= r.reserve }

// dropSpare takes a spare that is too many out of the account; undropSpare undoes that.
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

// madeSpare notes that the next segment is ready or, with an error, why not.
func (j *Journal) madeSpare(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.room.spares++
	}
	j.noteRoom(byAllocator, err)
}

// noteAhead notes why there is no segment for the ClaimMany that waits, if one does: it
// alone is refused for it.
func (j *Journal) noteAhead(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.room.wanted > 0 {
		j.room.ahead, j.room.wanted = err, 0
	}
	j.wakeClaims()
}
