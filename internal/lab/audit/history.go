package audit

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// Every order has a unique serial number in the fraction of its amount. So an order that the exchange
// shows is recognized without knowing its id.
const serialMax = unit // a fraction has 8 digits

// fate is what a client knows about an order's outcome.
type fate int

const (
	sent     fate = iota // no answer yet: it may have been executed
	answered             // accepted, with an id
	refused              // not executed, and never will be
	cutOff               // its frame was incomplete: it must never be executed
)

// sentOrder is an order or an amend from its client's point of view.
type sentOrder struct {
	instructions
	account, sym  string
	ref           string // "" if the order has no ref
	amount, limit int64  // in units of 10^-8; a negative amount is a sell
	fate          fate
	after         uint64       // highest known id when the order was sent
	id            uint64       // 0 until the order is answered
	answer        wire.Answer  // the answer that reports the most executions
	canceled      bool         // answer is to a cancel, or was received after one
	first         *wire.Answer // the answer that accepted the order; each retry must get the same answer

	old     uint64 // amends only: id of the amended order
	reduced string // amends only: shares that an answered amend took off in place
	done    bool   // amends only: found in the tables
}

// serial returns the serial number in an amount.
func serial(amount int64) int64 {
	if amount < 0 {
		amount = -amount
	}
	return amount % unit
}

// sentAccount is an account that a client asked to open, and its deposit.
type sentAccount struct {
	id, sym                  string
	balance, shares          int64 // in units of 10^-8
	opened, placed           fate
	inTables, placedInTables bool
}

// knowledge records what all clients together have sent and received. Its methods may be called from any
// goroutine; its fields are read between rounds.
type knowledge struct {
	mu       sync.Mutex
	last     int64                // last serial number used
	orders   map[int64]*sentOrder // by serial, without orders that are final and checked
	accounts map[string]*sentAccount
	ids      map[uint64]int64 // serial by order id, for answered orders
	recent   []uint64         // ids answered in this round
	highest  uint64           // highest order id answered
	counts   Counts
	wrong    []string
	silence  silence
	pace     *hdrhistogram.Histogram // times from a batch of frames to each of its replies, since the last CutPace
	bulk     bulk
	noRoom   atomic.Bool // a disk is full: commands that need room may be rejected
}

// Counts are totals over a whole run.
type Counts struct {
	Sent            int64            `json:"sent"` // orders sent
	Answered        int64            `json:"answered"`
	Refused         int64            `json:"refused"`
	CutOff          int64            `json:"cut_off"`
	UnknownHappened int64            `json:"unanswered_and_happened"`
	UnknownNever    int64            `json:"unanswered_and_never_happened"`
	Frames          int64            `json:"frames"`
	Queries         int64            `json:"queries"`
	Cancels         int64            `json:"cancels"`
	Creates         int64            `json:"creates"`
	Amended         int64            `json:"amended"`
	CanceledAll     int64            `json:"canceled_all"`
	Retried         int64            `json:"retried_without_an_answer"`
	Repeated        int64            `json:"sent_again_though_answered"`
	ConnectionsCut  int64            `json:"connections_cut_before_the_reply"`
	FramesCut       int64            `json:"frames_cut"`
	Errors          map[string]int64 `json:"errors"` // by text without numbers
}

// Add adds the totals of another exchange, except Errors.
func (c *Counts) Add(more Counts) {
	for _, sum := range [][2]*int64{{&c.Sent, &more.Sent}, {&c.Answered, &more.Answered}, {&c.Refused, &more.Refused},
		{&c.CutOff, &more.CutOff}, {&c.UnknownHappened, &more.UnknownHappened}, {&c.UnknownNever, &more.UnknownNever},
		{&c.Frames, &more.Frames}, {&c.Queries, &more.Queries}, {&c.Cancels, &more.Cancels}, {&c.Creates, &more.Creates},
		{&c.Amended, &more.Amended}, {&c.CanceledAll, &more.CanceledAll},
		{&c.Retried, &more.Retried}, {&c.Repeated, &more.Repeated}, {&c.ConnectionsCut, &more.ConnectionsCut},
		{&c.FramesCut, &more.FramesCut}} {
		*sum[0] += *sum[1]
	}
}

func newKnowledge(accounts []string) *knowledge {
	return &knowledge{orders: map[int64]*sentOrder{}, accounts: map[string]*sentAccount{}, ids: map[uint64]int64{},
		counts: Counts{Errors: map[string]int64{}}, pace: NewPace(), bulk: newBulk(accounts)}
}

// order records a new order before it is sent. amount is in whole shares.
func (h *knowledge) order(account, sym string, amount, limit int64) *sentOrder {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	if h.last >= serialMax {
		panic("check: a session has at most 99,999,999 orders")
	}
	n := amount*unit + h.last
	if amount < 0 {
		n = amount*unit - h.last
	}
	o := &sentOrder{account: account, sym: sym, amount: n, limit: limit, after: h.highest}
	h.orders[h.last] = o
	h.counts.Sent++
	return o
}

// account records a new account before it is sent.
func (h *knowledge) account(sym string) *sentAccount {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	a := &sentAccount{id: fmt.Sprintf("9%09d", h.last), sym: sym, balance: h.last, shares: h.last*3 + 1}
	h.accounts[a.id] = a
	h.counts.Creates++
	return a
}

// mark sets the fate of the orders and the account of a frame that was never complete.
func (h *knowledge) mark(f *frame, fate fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range f.orders {
		o.fate = fate
		h.counts.CutOff++
	}
	if f.account != nil {
		f.account.opened, f.account.placed = fate, fate
	}
}

// someID returns a random id that was answered in this round, or 0 if no order was answered.
func (h *knowledge) someID(pick func(n int) int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.recent) == 0 {
		return 0
	}
	return h.recent[pick(len(h.recent))]
}

// complain records a complaint: something is wrong with the exchange.
func (h *knowledge) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complainLocked(format, args...)
}

// complaintsMax is how many complaints are kept. The first ones matter most.
const complaintsMax = 50

func (h *knowledge) complainLocked(format string, args ...any) {
	if len(h.wrong) < complaintsMax {
		h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
	}
}

// recordAnswers records the reply to a frame.
func (h *knowledge) recordAnswers(f *frame, answers []wire.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silence.answered(time.Now())
	h.counts.Frames++
	if len(answers) != len(f.commands) {
		h.complainLocked("a frame of %d commands has %d answers: %s", len(f.commands), len(answers), f.xml)
		return
	}
	for i, c := range f.commands {
		switch a := &answers[i]; c.kind {
		case place:
			h.recordOrder(c.order, a)
		case query, cancel:
			h.recordStatus(c, a)
		case create:
			h.recordCreate(f.account, a)
		case retry:
			h.recordRetry(c.order, a)
		case repeat:
			h.recordRepeat(c.order, a)
		case other:
			h.recordOther(c.order, a)
		case byRef:
			h.recordByRef(c.order, a)
		case sweep:
			h.recordSweep(a)
		}
	}
}

func (h *knowledge) recordOrder(o *sentOrder, a *wire.Answer) {
	if !o.amends() && a.Order != o.element() {
		h.complainLocked("order %+v is answered with %+v", *o, *a)
	}
	switch {
	case a.Kind == "error":
		// A new ref sometimes looks like a used one, and only Postgres can distinguish the two.
		if !o.mayRefuse(a.Error) && !h.noRoomNow(a) {
			h.complainLocked("order %+v is refused: %s", *o, a.Error)
		}
		o.fate = refused
		h.counts.Refused++
		h.counts.Errors[kindOf(a.Error)]++
	case a.Kind == "opened" && !o.amends():
		o.fate, o.id, o.first = answered, number(a.ID), a
		h.counts.Answered++
		h.recordID(o)
	case a.Kind == "amended" && o.amends():
		o.first = a
		h.recordAmend(o, a)
	default:
		h.complainLocked("an order is answered with %+v", *a)
	}
}

// recordID records the id of an accepted order, or of the order that replaced it after an amend.
func (h *knowledge) recordID(o *sentOrder) {
	if other, double := h.ids[o.id]; double {
		h.complainLocked("order id %d was given to orders %d and %d", o.id, other, serial(o.amount))
	}
	if o.id <= o.after {
		h.complainLocked("order id %d was given to an order that was sent after the answer for %d", o.id, o.after)
	}
	h.ids[o.id] = serial(o.amount)
	h.recent = append(h.recent, o.id)
	h.highest = max(h.highest, o.id)
}

// recordSweep records the answer to a cancel-all or a cancel-after.
func (h *knowledge) recordSweep(a *wire.Answer) {
	switch {
	case a.Kind == "canceled-all" || a.Kind == "cancel-after":
		h.counts.CanceledAll++
	case a.Kind != "error" || !rejectedFor(a.Error, exchange.TooManyCancelAlls) && !h.noRoomNow(a):
		h.complainLocked("a cancel-all or a cancel-after is answered with %+v", *a)
	}
}

// noRoomNow reports whether a is a rejection for a full disk while a disk is full.
func (h *knowledge) noRoomNow(a *wire.Answer) bool {
	return h.noRoom.Load() && rejectedFor(a.Error, exchange.NoRoom)
}

// recordStatus records the answer to a query or a cancel. Answers about one order may be read in a
// different order than the server made them, so the most complete answer is kept.
func (h *knowledge) recordStatus(c command, a *wire.Answer) {
	want := "status"
	h.counts.Queries++
	if c.kind == cancel {
		want = "canceled"
		h.counts.Cancels++
		h.counts.Queries--
	}
	switch {
	case number(a.ID) != c.id:
		h.complainLocked("a %s of order %d is answered with %+v", want, c.id, *a)
	case a.Kind == "error" && rejectedFor(a.Error, exchange.UnknownOrder):
		h.complainLocked("of order %d, which was answered, the exchange says: %s", c.id, a.Error)
	case a.Kind == "error" && !rejectedFor(a.Error, exchange.AlreadyExecuted, exchange.AlreadyCanceled,
		exchange.HistoryUnavailable):
		h.complainLocked("a %s of order %d is refused: %s", want, c.id, a.Error)
	case a.Kind == "error":
		h.counts.Errors[kindOf(a.Error)]++
	case a.Kind != want:
		h.complainLocked("a %s of order %d is answered with %+v", want, c.id, *a)
	default:
		o := h.orders[h.ids[c.id]]
		if o == nil {
			return // from an earlier round, checked already
		}
		if a.Canceled != "" || !o.canceled && len(a.Executed) >= len(o.answer.Executed) {
			if o.canceled && (a.Canceled != o.answer.Canceled || a.CanceledAt != o.answer.CanceledAt ||
				!slices.Equal(a.Executed, o.answer.Executed)) {
				h.complainLocked("order %d changed after its cancel: %+v, then %+v", c.id, o.answer, *a)
			}
			o.answer, o.canceled = *a, a.Canceled != ""
		}
	}
}

func (h *knowledge) recordCreate(s *sentAccount, a *wire.Answer) {
	fate := &s.opened
	if a.Sym != "" {
		fate = &s.placed
	}
	switch {
	case a.ID != s.id:
		h.complainLocked("the creation of account %s is answered with %+v", s.id, *a)
	case a.Kind == "created":
		*fate = answered
	default:
		*fate = refused
		if !h.noRoomNow(a) {
			h.complainLocked("the creation of account %s is refused: %s", s.id, a.Error)
		}
	}
}

// newRound clears the ids answered in the last round.
func (h *knowledge) newRound() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = h.recent[:0]
}

// answeredNow returns how many orders have been answered so far.
func (h *knowledge) answeredNow() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts.Answered
}

// complaints returns all complaints so far.
func (h *knowledge) complaints() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.wrong)
}

// figures returns a copy of the counts.
func (h *knowledge) figures() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counts
	c.Errors = maps.Clone(c.Errors)
	return c
}
