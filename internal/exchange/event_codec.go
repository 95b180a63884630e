package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bits of the encoded kind.
const (
	refFollows   = 0x40 // a ref follows the time
	flagsFollows = 0x80 // a byte of flags follows the kind, and the time is in nanoseconds
)

// EventVersion is the newest version of encoded events that this program reads, and the one
// that it writes. It is the version of the program's journal. Every addition to the encoding of
// events must raise it.
//
//	1   kinds 1 to 5
//	2   refs, and kinds 6 to 8
//	3   a byte of flags, the time in nanoseconds, and kind 9
//	4   flags, terms beyond the side, and kinds 10 to 14
const EventVersion = 4

// ErrEvent is wrapped by the errors of DecodeEvent.
var ErrEvent = errors.New("exchange: not an event")

// AppendEvent appends e to dst: the kind, a byte of flags (Event.flags), the time, and the
// ref if there is one; then the fields in the order in which the kind's comment names them, and
// then the optional fields for which flags are set.
// Numbers are varints, strings and lists are preceded by their length, 128-bit numbers are an
// upper varint and a lower one.
//
// Before EventVersion 3, events have no flags, and their times are whole seconds.
func AppendEvent(dst []byte, e *Event) []byte {
	flags := e.flags()
	if e.Ref == "" {
		dst = append(dst, byte(e.Kind)|flagsFollows, flags)
		dst = binary.AppendVarint(dst, e.Time)
	} else {
		dst = append(dst, byte(e.Kind)|flagsFollows|refFollows, flags)
		dst = appendString(binary.AppendVarint(dst, e.Time), e.Ref)
	}
	switch e.Kind {
	case AccountOpened:
		dst = appendString(dst, e.Account)
		dst = appendInt128(dst, Int128(e.Balance))
	case SymbolMade, SymbolRuled:
		dst = appendRules(appendString(dst, e.Symbol), e.SymbolRules, flags, e.Kind)
	case SharesDeposited:
		dst = appendString(dst, e.Symbol)
		dst = appendString(dst, e.Account)
		dst = appendInt128(dst, Int128(e.Deposited))
	case OrderAccepted, OrderReplaced:
		dst = appendFills(appendOrder(dst, e), e.Fills)
	case OrderContinued:
		dst = binary.AppendUvarint(appendOrder(dst, e), uint64(e.Before))
		dst = appendFills(dst, e.Fills)
	case OrderCanceled, OrderReduced:
		dst = appendOrder(dst, e)
	case SymbolHalted:
		dst = appendString(dst, e.Symbol)
		dst = appendText(dst, e.Reason)
	case SymbolResumed:
		dst = appendString(dst, e.Symbol)
	case OrdersCanceled:
		dst = appendString(dst, e.Account)
		dst = appendCancels(dst, e.Cancels)
	case AccountRuled:
		dst = appendAccountRules(appendString(dst, e.Account), e.AccountRules)
	case SwitchSet:
		dst = binary.AppendVarint(appendString(dst, e.Account), e.Due)
	default:
		panic(fmt.Sprintf("exchange: event of unknown kind %d", e.Kind))
	}
	if e.hasMore(flags) {
		dst = appendMore(dst, e, flags)
	}
	return dst
}

func appendString[S ~string](dst []byte, s S) []byte {
	return append(append(dst, byte(len(s))), s...)
}

// appendText appends a string that may be longer than 255 bytes.
func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendInt128(dst []byte, v Int128) []byte {
	dst = binary.AppendVarint(dst, v.Hi)
	return binary.AppendUvarint(dst, v.Lo)
}

// Maximum encoded sizes of parts of an event, in bytes.
const (
	varintMax  = binary.MaxVarintLen64
	accountMax = 1 + AccountDigitsMax
	symbolMax  = 1 + SymbolCharsMax
	refMax     = 1 + RefCharsMax
)

// EventBytesMax is the maximum encoded size of an event without fills, reason and cancels. The
// longest such event is one of an order: kind, flags, time, ref, order id, account, symbol, side,
// shares, limit, the number of earlier fills and the number of its own.
const EventBytesMax = 2 + varintMax + refMax + varintMax + accountMax + symbolMax + 1 + 4*varintMax

// fillBytesMax returns the maximum encoded size of a fill with an order of an account whose
// id has this many digits.
func fillBytesMax(digits int) int { return varintMax + 1 + digits + varintMax + varintMax }

// fillBytesMin is the minimum encoded size of a fill: it limits how many fills a record of
// a given length can claim to have.
const fillBytesMin = 4

// instructionBytesMax is the maximum size that order instructions add to an event, beyond EventBytesMax, its fills and
// the entries of Own: Hold, Rest, the number of Own, and Amend.
const instructionBytesMax = 2*varintMax + varintMax + varintMax + 9*varintMax

// ownBytesMax is the maximum encoded size of an order in Own. It is less than that of any fill.
const ownBytesMax = 3*varintMax + 1

// DecodeEvent decodes b, which must be exactly what AppendEvent wrote, into e, and reuses
// the memory of e.Fills. The strings are copies. An error wraps ErrEvent and says
// what is wrong; e is then unusable.
func DecodeEvent(b []byte, e *Event) error {
	r := eventReader{rest: b}
	return r.decode(e, len(b))
}

// Decoder decodes many events. It keeps the names of accounts and symbols, which repeat, so that they
// are not copied for each event. The zero Decoder is ready to use. Not safe for concurrent use.
type Decoder struct {
	names names
	event Event // memory of DecodeKept
}

// Decode is DecodeEvent, except that the strings of several events may share memory.
func (d *Decoder) Decode(b []byte, e *Event) error {
	r := eventReader{rest: b, names: &d.names}
	return r.decode(e, len(b))
}

// decode decodes an event of `length` bytes.
func (r *eventReader) decode(e *Event, length int) error {
	ref, err := r.begin(e)
	if err != nil {
		return err
	}
	e.Ref = Ref(ref)
	switch e.Kind {
	case AccountOpened:
		e.Account, e.Balance = AccountID(r.string()), Cash(r.int128())
	case SymbolMade, SymbolRuled:
		e.Symbol = Symbol(r.string())
		r.rules(e)
	case SharesDeposited:
		e.Symbol, e.Account, e.Deposited = Symbol(r.string()), AccountID(r.string()), Position(r.int128())
	case OrderAccepted, OrderReplaced:
		r.order(e)
		r.fills(e)
	case OrderContinued:
		r.order(e)
		e.Before = r.count()
		r.fills(e)
	case OrderCanceled, OrderReduced:
		r.order(e)
	case SymbolHalted:
		e.Symbol, e.Reason = Symbol(r.string()), string(r.text())
	case SymbolResumed:
		e.Symbol = Symbol(r.string())
	case OrdersCanceled:
		e.Account, e.Cancels = AccountID(r.string()), r.cancels()
	case AccountRuled:
		e.Account, e.AccountRules = AccountID(r.string()), r.accountRules()
	case SwitchSet:
		e.Account, e.Due = AccountID(r.string()), r.varint()
	default:
		return fmt.Errorf("%w: unknown kind %d", ErrEvent, e.Kind)
	}
	if e.hasMore(r.flags) {
		r.more(e)
	}
	if r.short || len(r.rest) != 0 {
		return fmt.Errorf("%w: %s of %d bytes is cut short or too long", ErrEvent, e.Kind, length)
	}
	return e.Check()
}

// eventReader reads fields from the front of an encoded event. Once a field is incomplete
// or invalid, short is set; all fields after an incomplete one are zero.
type eventReader struct {
	rest  []byte
	short bool
	flags byte   // flags byte of the event
	names *names // cache of account and symbol names; nil if each name is copied
}

// begin empties e, reads the kind, the flags and the time into it, and returns the bytes of
// the ref, or nil if there is none.
func (r *eventReader) begin(e *Event) (ref []byte, err error) {
	kind := r.byte()
	*e = Event{Kind: EventKind(kind &^ (refFollows | flagsFollows)), Fills: e.Fills[:0]}
	if err := r.time(e, kind&flagsFollows != 0); err != nil {
		return nil, err
	}
	if kind&refFollows == 0 {
		return nil, nil
	}
	if ref = r.name(); len(ref) == 0 {
		return nil, fmt.Errorf("%w: %s without the ref that its kind announces", ErrEvent, e.Kind)
	}
	return ref, nil
}

// time reads the flags and the time in nanoseconds, or, in old events, a time in whole seconds.
func (r *eventReader) time(e *Event, flags bool) error {
	if flags {
		r.flags = r.byte()
		e.Time = r.varint()
		return e.setFlags(r.flags)
	}
	seconds := r.varint()
	if e.Time = seconds * Second; e.Time/Second != seconds {
		return fmt.Errorf("%w: %s at second %d", ErrEvent, e.Kind, seconds)
	}
	return nil
}

// next returns the next n bytes. If n is negative or too large it returns nil and sets short.
func (r *eventReader) next(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *eventReader) byte() byte {
	if b := r.next(1); b != nil {
		return b[0]
	}
	return 0
}

// text reads what appendText wrote.
func (r *eventReader) text() []byte {
	n := r.uvarint()
	return r.next(int(min(n, uint64(len(r.rest))+1)))
}

func (r *eventReader) string() string {
	b := r.name()
	if r.names == nil {
		return string(b)
	}
	return r.names.get(b)
}

func (r *eventReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.short, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *eventReader) varint() int64 {
	v := r.uvarint() // zigzag
	return int64(v>>1) ^ -int64(v&1)
}

func (r *eventReader) int128() Int128 { return Int128{Hi: r.varint(), Lo: r.uvarint()} }

// names is a cache of names by hash: each name has one place, and a newer name with the same hash replaces it.
type names [1 << namesBits]string

const namesBits = 12

// get returns b as a string, from the cache if it is there.
func (n *names) get(b []byte) string {
	const mix = 0x9e3779b97f4a7c15 // odd, with irregular bits
	h, rest := uint64(len(b)), b
	for ; len(rest) >= 8; rest = rest[8:] {
		h = (h ^ binary.LittleEndian.Uint64(rest)) * mix
		h ^= h >> 32
	}
	for _, c := range rest {
		h = (h ^ uint64(c)) * mix
	}
	at := &n[h>>(64-namesBits)]
	if *at != string(b) {
		*at = string(b)
	}
	return *at
}
