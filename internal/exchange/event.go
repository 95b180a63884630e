package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// EventKind is the kind of an Event.
type EventKind uint8

// The event kinds, and the fields that each has. Their numbers are part of the journal's format and never change.
const (
	AccountOpened   EventKind = 1 // Account, Balance
	SymbolMade      EventKind = 2 // Symbol
	SharesDeposited EventKind = 3 // Symbol, Account, Deposited
	OrderAccepted   EventKind = 4 // Order, Account, Symbol, Terms, Shares, Fills
	OrderCanceled   EventKind = 5 // Order, Account, Symbol, Terms, Shares (those canceled)
	SymbolHalted    EventKind = 6 // Symbol, Reason
	SymbolResumed   EventKind = 7 // Symbol

	OrdersCanceled EventKind = 8 // Account, Cancels

	// OrderContinued is a further part of an order that meets more than FillsMax resting
	// orders; its first part is an OrderAccepted or an OrderReplaced.
	OrderContinued EventKind = 9 // Order, Account, Symbol, Terms, Shares (open before this part), Before, Fills

	// OrderReduced is an amend that keeps the order's id and place: Order, Account, Symbol, Terms, Shares
	// (those taken off, 0 for an amend that only uses a ref), Amend.
	OrderReduced EventKind = 10
	// OrderReplaced is an amend that cancels the remainder of an order and enters a new order in its place:
	// the fields of OrderAccepted, for the new order, and Amend.
	OrderReplaced EventKind = 11

	AccountRuled EventKind = 12 // Account, AccountRules (all of its rules from now on)
	SymbolRuled  EventKind = 13 // Symbol, SymbolRules (all of its rules from now on)
	SwitchSet    EventKind = 14 // Account, Due: the dead man's switch; 0 disarms it

	eventKindMax = SwitchSet
)

// Bits of the encoded kind.
const (
	refFollows   = 0x40 // a ref follows the time
	flagsFollows = 0x80 // a byte of flags follows the kind, and the time is in nanoseconds
)

// EventKinds ranges over all kinds of events.
func EventKinds() iter.Seq[EventKind] {
	return func(yield func(EventKind) bool) {
		for k := AccountOpened; k <= eventKindMax && yield(k); k++ {
		}
	}
}

// String returns the name used in a printed journal.
func (k EventKind) String() string {
	switch k {
	case AccountOpened:
		return "account"
	case SymbolMade:
		return "symbol"
	case SharesDeposited:
		return "place"
	case OrderAccepted:
		return "order"
	case OrderCanceled:
		return "cancel"
	case SymbolHalted:
		return "halt"
	case SymbolResumed:
		return "resume"
	case OrdersCanceled:
		return "cancel-all"
	case OrderContinued:
		return "continue"
	case OrderReduced:
		return "reduce"
	case OrderReplaced:
		return "replace"
	case AccountRuled:
		return "account-rules"
	case SymbolRuled:
		return "symbol-rules"
	case SwitchSet:
		return "switch"
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Event is everything that one command did: one journal record. It refers to
// accounts and orders by their ids, so that it can be read without any state.
// Fields that its kind does not name are zero.
type Event struct {
	Kind         EventKind
	Unsent       Unsent // the Terms that the client did not send; of OrderAccepted and OrderReplaced
	OnDisconnect bool   // cod: cancel the order when its connection ends; of OrderAccepted and OrderReplaced
	Cause        CancelCause

	Time      int64 // of the event, nanoseconds since the Unix epoch
	Account   AccountID
	Symbol    Symbol
	Balance   Cash
	Deposited Position
	Order     OrderID
	Terms
	Shares  Shares
	Before  int    // number of fills in the order's earlier parts
	Fills   []Fill // fills of this part, in the order of matching
	Ref     Ref    // client order id, of the kinds that may have one; "" if the client sent none
	Reason  string // reason of a halt
	Cancels []Cancel

	// Hold is set in OrderAccepted and OrderReplaced for an unfinished market buy: the cost of its further
	// parts.
	Hold Cash

	// Rest and Own are set in OrderAccepted, OrderReplaced and OrderContinued.
	Rest Shares // shares of the order itself that this record cancels: all that its fills have left
	// Own are resting orders of the account that self-trade prevention canceled, in the order in which they were
	// met. Their Symbol is empty: it is the event's.
	Own []Cancel

	Amend        *Amendment // of OrderReduced and OrderReplaced
	AccountRules *AccountRules
	SymbolRules  *SymbolRules // of SymbolRuled, and of a SymbolMade with a tick or a lot
	Due          int64        // of a SwitchSet: when the switch fires, nanoseconds since the Unix epoch
}

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

// DecodeEvent decodes b, which must be exactly what AppendEvent wrote, into e, and reuses
// the memory of e.Fills. The strings are copies. An error wraps ErrEvent and says
// what is wrong; e is then unusable.
func DecodeEvent(b []byte, e *Event) error {
	r := eventReader{rest: b}
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

// Same reports whether two events are equal.
func (e *Event) Same(f *Event) bool {
	return e.Kind == f.Kind && e.Time == f.Time && e.Account == f.Account && e.Symbol == f.Symbol && e.Ref == f.Ref &&
		e.Balance == f.Balance && e.Deposited == f.Deposited && e.Reason == f.Reason &&
		e.Order == f.Order && e.Terms == f.Terms && e.Shares == f.Shares && e.Before == f.Before &&
		slices.EqualFunc(e.Fills, f.Fills, Fill.same) && slices.Equal(e.Cancels, f.Cancels) && e.sameMore(f)
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

// take returns the next n bytes. If n is negative or too large it returns nil and sets short.
func (r *eventReader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *eventReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// text reads what appendText wrote.
func (r *eventReader) text() []byte {
	n := r.uvarint()
	return r.take(int(min(n, uint64(len(r.rest))+1)))
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
