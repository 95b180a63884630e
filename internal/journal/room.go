package journal

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// reserveFraction of a segment is kept for ClaimReserve.
const reserveFraction = 4

// room counts what records can still take of the segments that are ready. The
// journal's mu guards all of it but failing.
type room struct {
	segment int64 // what records can take of a new segment
	reserve int64 // what Claim leaves to ClaimReserve
	tail    int64 // what records can take of the present segment, behind what is written
	spares  int64 // segments that are ready behind it
	charged int64 // for records that are claimed, or appended and not written yet
	many    int64 // of it, for records that ClaimMany has claimed and that are not appended

	wanted int64         // what a ClaimMany waits for; 0 if none does
	ahead  error         // why no segment could be made for it; it takes the error out
	grown  chan struct{} // closed when there may be more room; nil while no ClaimMany waits

	// failing says why there is no segment: the next one, which the allocator
	// makes, or the one that the flusher is about to begin; or no room to write in
	// the present one. Set by the goroutine that tries.
	failing [3]atomic.Pointer[error]
}

// Who may have no room.
const (
	byAllocator = iota
	byFlusher
	byWrite // the flusher, in the present segment: only where a file system copies what is written over
)

func newRoom(segmentBytes int64) room {
	return room{segment: max(0, segmentBytes-segmentHeader-recordHeader), reserve: segmentBytes / reserveFraction}
}

// free returns what may still be claimed.
func (r *room) free() int64 { return r.tail + r.spares*r.segment - r.charged }

// err returns why there is no next segment, or no room in the present one; nil while
// both are there or being made.
func (r *room) err() error {
	if err := r.writing(); err != nil {
		return err
	}
	for i := range r.failing {
		if err := r.failing[i].Load(); err != nil {
			return fmt.Errorf("%w: %w", ErrNoRoom, *err)
		}
	}
	return nil
}

// writing returns why the present segment cannot be written, nil while it can be.
func (r *room) writing() error {
	if err := r.failing[byWrite].Load(); err != nil {
		return fmt.Errorf("%w, and none to write in the present one: %w", ErrNoRoom, *err)
	}
	return nil
}

// charge returns what a record may take: its bytes and, where it is the first one
// that no longer fits into a segment, what is left unused of that, which is less
// than its bytes. So whatever is claimed fits, in any order of appending.
func charge(recordBytes int) int64 { return 2 * int64(recordBytes) }

// recordBytes returns how many bytes a record takes in a file.
func recordBytes(payload int) int { return padded(recordHeader + payload) }

// isNoRoom reports whether an error is that of a full disk, a used up quota, or a lack of
// file descriptors: all of them pass.
func isNoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isNoDescriptor(err)
}

// isNoDescriptor reports whether a file could not be opened because the process or the
// machine has as many open as it may.
func isNoDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Room returns nil while the segment that will be needed next is there or being
// made, and the present one can be written. An error, which wraps ErrNoRoom, says why
// not; the journal tries again twice a second. Claim refuses meanwhile.
func (j *Journal) Room() error { return j.room.err() }

// RoomBytes returns how much the segments that are ready can still take, without
// what is claimed. Not all of it can be used: a record is not split.
func (j *Journal) RoomBytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(0, j.room.free())
}

// UnsyncedBytes returns how much is appended and not on stable storage yet.
func (j *Journal) UnsyncedBytes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.pending.bytes)
	if j.writing != nil {
		n += len(j.writing.bytes)
	}
	return n
}

// ReserveBytes returns how much of the room Claim leaves to ClaimReserve.
func (j *Journal) ReserveBytes() int64 { return j.room.reserve }

// ClaimBytesMax returns the largest payload that can be claimed: so much that it
// fits, beside the reserve, into any segment.
func (j *Journal) ClaimBytesMax() int {
	return int(j.room.segment-j.room.reserve)/2&^(recordAlign-1) - recordHeader
}

// Claim sets room aside for a record of up to payload bytes, which its caller is
// bound to append with AppendClaimed. It leaves a reserve of a quarter of a
// segment untouched. It waits while the next segment is being made. The error is
// ErrNoRoom while that cannot be made, ErrTooLarge above ClaimBytesMax, the
// journal's failure or ErrClosed; nothing is set aside then.
func (j *Journal) Claim(payload int) error { return j.claim(payload, j.room.reserve) }

// ClaimReserve is Claim for what has to go on without new segments. It may use
// the reserve, and returns ErrNoRoom once that is used up, or while the present
// segment cannot be written.
func (j *Journal) ClaimReserve(payload int) error { return j.claim(payload, 0) }

func (j *Journal) claim(payload int, keep int64) error {
	need := charge(recordBytes(payload))
	if need > j.room.segment-j.room.reserve {
		return fmt.Errorf("%w: %d bytes, the limit beside the reserve of a segment is %d",
			ErrTooLarge, payload, j.ClaimBytesMax())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		noRoom := j.room.err()
		switch {
		case j.err != nil:
			return j.err
		case j.closing:
			return ErrClosed
		case noRoom != nil && (keep > 0 || j.room.writing() != nil):
			return noRoom
		case j.room.free()-need >= keep:
			j.room.charged += need
			return nil
		case noRoom != nil && j.room.charged == 0: // else what is on its way may take less than it was charged
			return noRoom
		}
		j.space.Wait()
	}
}

// noteRoom notes why there is no segment, or that there is one. Callers hold mu.
func (j *Journal) noteRoom(who int, err error) {
	if err == nil {
		j.room.failing[who].Store(nil)
	} else {
		j.room.failing[who].Store(&err)
	}
	j.wakeClaims()
}

// untilRoom calls try, again and again while it fails because the disk is full or no
// file can be opened. It is for the flusher, which must not fail for that: what it is to
// write is done already. It returns try's last error, also when the journal is closed.
// Each try after the first must be safe: no sync may be repeated for the same bytes.
func (j *Journal) untilRoom(who int, try func() error) error { return j.until(who, isNoRoom, try) }

// until is untilRoom for the errors that passes reports to pass.
func (j *Journal) until(who int, passes func(error) bool, try func() error) error {
	told := false
	for {
		err := try()
		if waits := passes(err); waits || told {
			j.mu.Lock()
			if told = waits; waits {
				j.noteRoom(who, err)
			} else {
				j.noteRoom(who, nil)
			}
			j.mu.Unlock()
		}
		if !told {
			return err
		}
		select {
		case <-time.After(allocateRetry):
		case <-j.giveUp:
			return err
		}
	}
}
