package exchange

import (
	"slices"
	"strings"
	"unsafe"
)

// KeptEvent is an Event for those that follow the exchange: it refers to no memory but its own, so it stays valid when
// the owner executes the next command. Most events are of an order with at most one fill, and fit into the fields,
// which are few so that they move through the processors' caches quickly. All others use separate memory, which is
// reused after Recycle.
//
// The names of accounts and symbols belong to the ledger and are never overwritten, so readers may keep them.
// Everything else that an event refers to, its ref and reason too, may be overwritten after Recycle.
type KeptEvent struct {
	more *keptMore // has the event if rare is set; otherwise nil or memory for a later one
	rare bool      // the event does not fit into the other fields

	kind    EventKind
	terms   Terms
	unsent  Unsent
	onClose bool // Event.OnDisconnect
	filled  bool // whether fill is set

	time    int64
	account AccountID
	symbol  Symbol
	order   OrderID
	shares  Shares
	rest    Shares
	fill    Fill
}

// keptMore is an event with its own memory.
type keptMore struct {
	event        Event
	fills        []Fill
	own, cancels []Cancel
	text         []byte // ref and reason
	amend        Amendment
	rules        AccountRules
	block        Halt
	symbol       SymbolRules
}

// Keep makes k, which is zero or recycled, a copy of e, which may share memory with a book, an account or a frame.
func (k *KeptEvent) Keep(e *Event) {
	k.rare = e.Kind != OrderAccepted && e.Kind != OrderCanceled || len(e.Fills) > 1 || len(e.Own) > 0 || e.Ref != "" ||
		e.Hold != (Cash{})
	if k.rare {
		if k.more == nil {
			k.more = new(keptMore)
		}
		k.more.keep(e)
		return
	}
	k.kind, k.terms, k.unsent, k.onClose, k.time = e.Kind, e.Terms, e.Unsent, e.OnDisconnect, e.Time
	k.account, k.symbol, k.order, k.shares, k.rest = e.Account, e.Symbol, e.Order, e.Shares, e.Rest
	if k.filled = len(e.Fills) > 0; k.filled {
		k.fill = e.Fills[0].bare()
	}
}

// bare returns f without the fields that refer to its command.
func (f *Fill) bare() Fill {
	return Fill{Resting: f.Resting, Account: f.Account, Shares: f.Shares, Price: f.Price}
}

// keep copies e.
func (m *keptMore) keep(e *Event) {
	m.event = *e
	m.fills = slices.Grow(m.fills[:0], len(e.Fills))
	for i := range e.Fills {
		m.fills = append(m.fills, e.Fills[i].bare())
	}
	m.own, m.cancels = append(m.own[:0], e.Own...), append(m.cancels[:0], e.Cancels...)
	m.event.Fills, m.event.Own, m.event.Cancels = m.fills, m.own, m.cancels
	m.text = append(append(m.text[:0], e.Ref...), e.Reason...)
	text := unsafe.String(unsafe.SliceData(m.text), len(m.text))
	m.event.Ref, m.event.Reason = Ref(text[:len(e.Ref)]), text[len(e.Ref):]
	if e.Amend != nil {
		m.amend = *e.Amend
		m.event.Amend = &m.amend
	}
	if e.AccountRules != nil {
		m.rules = *e.AccountRules
		if m.event.AccountRules = &m.rules; m.rules.Block != nil {
			m.block = *m.rules.Block
			m.block.Reason = strings.Clone(m.block.Reason)
			m.rules.Block = &m.block
		}
	}
	if e.SymbolRules != nil {
		m.symbol = *e.SymbolRules
		m.event.SymbolRules = &m.symbol
	}
	switch e.Kind {
	case AccountOpened, SymbolMade, SharesDeposited, AccountRuled, SymbolRuled, SwitchSet, SymbolHalted, SymbolResumed:
		// The names in these events may be those of a command, which are part of its frame.
		m.event.Account = AccountID(strings.Clone(string(e.Account)))
		m.event.Symbol = Symbol(strings.Clone(string(e.Symbol)))
	case OrderAccepted, OrderCanceled, OrdersCanceled, OrderContinued, OrderReduced, OrderReplaced:
	}
}

// DecodeKept makes k, which is zero or recycled, the event that AppendEvent wrote to record. The error is that of
// DecodeEvent; k is then unusable.
func (d *Decoder) DecodeKept(record []byte, k *KeptEvent) error {
	err := d.Decode(record, &d.event)
	if err == nil {
		k.Keep(&d.event)
	}
	return err
}

// KeptDecoder returns the DecodeKept of a new Decoder.
func KeptDecoder() func(record []byte, into *KeptEvent) error { return new(Decoder).DecodeKept }

// Event returns the event, which may use the memory of into and its Fills. It is read-only, and valid until into is
// reused or k is recycled. into must be zero at its first use, and only Event may change it afterwards: Event does not
// reset the fields that only rare events have.
func (k *KeptEvent) Event(into *Event) *Event {
	if k.rare {
		return &k.more.event
	}
	into.Kind, into.Terms, into.Unsent, into.OnDisconnect, into.Time = k.kind, k.terms, k.unsent, k.onClose, k.time
	into.Account, into.Symbol, into.Order, into.Shares, into.Rest = k.account, k.symbol, k.order, k.shares, k.rest
	if into.Fills = into.Fills[:0]; k.filled {
		into.Fills = append(into.Fills, k.fill)
	}
	return into
}

// Extra returns the approximate size, in bytes, of what k refers to, without the names: 0 for most events.
func (k *KeptEvent) Extra() int {
	if !k.rare {
		return 0
	}
	m := k.more
	return int(unsafe.Sizeof(*m)) + cap(m.fills)*int(unsafe.Sizeof(Fill{})) + cap(m.text) +
		(cap(m.own)+cap(m.cancels))*int(unsafe.Sizeof(Cancel{}))
}

// Work returns the Work of the event.
func (k *KeptEvent) Work() int {
	switch {
	case k.rare:
		return k.more.event.Work()
	case k.filled:
		return 2
	}
	return 1
}

// Work returns how much work the event is for a follower of the journal: 1, plus 1 for each fill and each canceled
// order.
func (e *Event) Work() int { return 1 + len(e.Fills) + len(e.Own) + len(e.Cancels) }

// keptMax is the size, in bytes, above which the memory of an event is not reused.
const keptMax = 2 << 10

// Recycle must be called when no reader of k is left, before k is used again.
func (k *KeptEvent) Recycle() {
	if !k.rare {
		return
	}
	if k.Extra() > keptMax {
		k.more = nil
	} else {
		k.more.overwrite()
	}
	k.rare = false
}
