package journal

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// reserveFraction is the divisor for the reserve: 1/reserveFraction of a segment is for ClaimReserve.
const reserveFraction = 4

// room keeps account of the bytes that are free for records in the segments that are ready. All fields
// except failing are guarded by the journal's mu.
type room struct {
	segment int64 // bytes for records in a new segment
	reserve int64 // bytes that only ClaimReserve may use
	tail    int64 // bytes left for records in the current segment
	spares  int64 // number of spare segments that are ready
	charged int64 // bytes charged for records that are claimed, or appended but not written yet
	many    int64 // part of charged for records that were claimed by ClaimMany and not appended yet

	wanted int64         // bytes that a ClaimMany waits for; 0 if none waits
	ahead  error         // why no segment could be made for the waiting ClaimMany; the next ClaimMany clears it
	grown  chan struct{} // closed when room may have been freed; nil while no ClaimMany waits

	// failing holds the reason why there is no room, nil if there is: for the spare that the
	// allocator makes, for the segment that the flusher begins, and for writes to the current one.
	// Each element is set by the goroutine that makes the attempt.
	failing [3]atomic.Pointer[error]
}

// Indexes of room.failing: the steps that may find no room.
const (
	byAllocator = iota
	byFlusher
	byWrite // the flusher, writing to the current segment: happens only on copy-on-write file systems
)

func newRoom(segmentBytes int64) room {
	return room{segment: max(0, segmentBytes-segmentHeader-recordHeader), reserve: segmentBytes / reserveFraction}
}

// free returns how many bytes can still be claimed; it may be negative.
func (r *room) free() int64 { return r.tail + r.spares*r.segment - r.charged }

// err returns why the next segment cannot be made or the current one cannot be written. It returns nil
// if neither has failed.
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

// writing returns why the current segment cannot be written, or nil if it can.
func (r *room) writing() error {
	if err := r.failing[byWrite].Load(); err != nil {
		return fmt.Errorf("%w, and no room in the current one: %w", ErrNoRoom, *err)
	}
	return nil
}

// charge returns how many bytes of room a record may use up: its own size, plus what may remain unused
// at the end of a segment if the record does not fit there, which is less than its size. Therefore all
// claimed records fit, in whatever order they are appended.
func charge(recordBytes int) int64 { return 2 * int64(recordBytes) }

// recordBytes returns the size of a record in a file, with header and padding.
func recordBytes(payload int) int { return padded(recordHeader + payload) }

// isNoRoom reports whether err says that the disk is full, a quota is used up, or all file descriptors
// are in use. These conditions are temporary.
func isNoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isNoDescriptor(err)
}

// isNoDescriptor reports whether err says that the process or the machine has reached its limit of open
// files.
func isNoDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Room returns nil while the next segment is ready or being made and the current one can be written.
// Otherwise it returns the reason, which wraps ErrNoRoom. Until that has passed, Claim fails, and the
// journal retries twice a second.
func (j *Journal) Room() error { return j.room.err() }

// RoomBytes returns how many unclaimed bytes the segments that are ready have left. Not all of them are
// usable, because a record is not split.
func (j *Journal) RoomBytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(0, j.room.free())
}

// UnsyncedBytes returns how many bytes are appended but not on stable storage yet.
func (j *Journal) UnsyncedBytes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.pending.bytes)
	if j.writing != nil {
		n += len(j.writing.bytes)
	}
	return n
}

// ReserveBytes returns how many bytes Claim leaves for ClaimReserve.
func (j *Journal) ReserveBytes() int64 { return j.room.reserve }

// ClaimBytesMax returns the largest payload that can be claimed, in bytes: it fits into any segment
// together with the reserve.
func (j *Journal) ClaimBytesMax() int {
	return int(j.room.segment-j.room.reserve)/2&^(recordAlign-1) - recordHeader
}

// Claim sets room aside for one record of up to payload bytes. The caller must then append it with
// AppendClaimed. Claim leaves a reserve of a quarter of a segment for ClaimReserve. It waits while the
// next segment is being made. The error is ErrNoRoom if that cannot be made, ErrTooLarge above
// ClaimBytesMax, the journal's failure or ErrClosed; nothing is set aside then.
func (j *Journal) Claim(payload int) error { return j.claim(payload, j.room.reserve) }

// ClaimReserve is Claim for commands that must still work on a full disk. It may use the reserve, and
// returns ErrNoRoom once that is used up, or while the current segment cannot be written.
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
		case noRoom != nil && j.room.charged == 0: // nothing is charged whose release could make room
			return noRoom
		}
		j.space.Wait()
	}
}

// recordRoom records the result of the step who: why it has no room, or nil. The caller holds mu.
func (j *Journal) recordRoom(who int, err error) {
	if err == nil {
		j.room.failing[who].Store(nil)
	} else {
		j.room.failing[who].Store(&err)
	}
	j.wakeClaims()
}

// untilRoom calls try until it succeeds or fails for another reason than a full disk or a lack of file
// descriptors. The flusher uses it because it must not fail for these: it writes commands that were
// executed already. Close ends the retries; then the last error is returned. It must be safe to
// repeat try: it must not repeat a failed sync of the same bytes.
func (j *Journal) untilRoom(who int, try func() error) error { return j.until(who, isNoRoom, try) }

// until is untilRoom for the errors that passes reports as temporary.
func (j *Journal) until(who int, passes func(error) bool, try func() error) error {
	waiting := false
	for {
		err := try()
		if waits := passes(err); waits || waiting {
			j.mu.Lock()
			if waiting = waits; waits {
				j.recordRoom(who, err)
			} else {
				j.recordRoom(who, nil)
			}
			j.mu.Unlock()
		}
		if !waiting {
			return err
		}
		select {
		case <-time.After(allocateRetry):
		case <-j.giveUp:
			return err
		}
	}
}
