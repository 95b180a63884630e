package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"outcry/internal/door/xml/wire"
)

// Every order that is ever sent has a serial number of its own, in the fraction
// of its amount: an order that the exchange shows is the one that was sent, or
// one that never was. So nobody has to be told an id to recognize an order.
const serialMax = unit // a fraction has 8 digits

// fate is what a client knows of an order.
type fate int

const (
	sent     fate = iota // no answer yet: it may have happened
	answered             // accepted, with an id
	refused              // it did not happen, and never will
	cutOff               // its frame was never whole: it must never happen
)

// sentOrder is an order, or an amend, as its client knows it.
type sentOrder struct {
	instructions
	account, sym  string
	ref           string // "" if it has none
	amount, limit int64  // in units of 10^-8; a negative amount sells
	fate          fate
	after         uint64       // the highest id that was known when it was sent
	id            uint64       // once answered
	told          wire.Answer  // the answer with the most executions
	canceled      bool         // told is of a cancel or after one
	first         *wire.Answer // the answer that accepted it: whenever it is sent again, it gets the same

	old     uint64 // of an amend: the order that it is about
	reduced string // of an amend that was answered: what it took off in place
	done    bool   // of an amend: it is in the tables
}

// serial returns the number that is in an amount.
func serial(amount int64) int64 {
	if amount < 0 {
		amount = -amount
	}
	return amount % unit
}

// sentAccount is an account that a client asked for, with shares in a symbol.
type sentAccount struct {
	id, sym                  string
	balance, shares          int64 // in units of 10^-8
	opened, placed           fate
	inTables, placedInTables bool
}

// history is what all clients together have sent and been told. Its methods may
// be called from any goroutine; its fields are read between rounds.
type history struct {
	mu       sync.Mutex
	last     int64                // serial number
	orders   map[int64]*sentOrder // by serial: those that are not settled and checked yet
	accounts map[string]*sentAccount
	ids      map[uint64]int64 // serials of answered orders
	recent   []uint64         // ids that were told in this round
	highest  uint64           // id
	counts   Counts
	wrong    []string
	silence  silence
	pace     *hdrhistogram.Histogram // times from a batch of frames to each of its replies, since the last cutPace
	bulk     bulk
	noRoom   atomic.Bool // a disk is full: what is new may be refused
}

// Counts are figures of a whole run.
type Counts struct {
	Sent            int64            `json:"sent"` // orders
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
	Errors          map[string]int64 `json:"errors"` // by text, without its figures
}

// Add adds the figures of another exchange, except its errors.
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

func newHistory(accounts []string) *history {
	return &history{orders: map[int64]*sentOrder{}, accounts: map[string]*sentAccount{}, ids: map[uint64]int64{},
		counts: Counts{Errors: map[string]int64{}}, pace: NewPace(), bulk: newBulk(accounts)}
}

// order makes an order that is about to be sent. amount is in whole shares.
func (h *history) order(account, sym string, amount, limit int64) *sentOrder {
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

// account makes an account that is about to be asked for.
func (h *history) account(sym string) *sentAccount {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	a := &sentAccount{id: fmt.Sprintf("9%09d", h.last), sym: sym, balance: h.last, shares: h.last*3 + 1}
	h.accounts[a.id] = a
	h.counts.Creates++
	return a
}

// mark sets the fate of orders and accounts whose frame was never whole.
func (h *history) mark(f *frame, fate fate) {
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

// someID returns an id that somebody was told lately, 0 if nobody was.
func (h *history) someID(pick func(n int) int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.recent) == 0 {
		return 0
	}
	return h.recent[pick(len(h.recent))]
}

// complain notes that something is wrong.
func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complainLocked(format, args...)
}

// complaintsMax is how many are kept; the first is what matters.
const complaintsMax = 50

func (h *history) complainLocked(format string, args ...any) {
	if len(h.wrong) < complaintsMax {
		h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
	}
}

// note takes in the reply to a frame.
func (h *history) note(f *frame, answers []wire.Answer) {
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
			h.noteOrder(c.order, a)
		case query, cancel:
			h.noteStatus(c, a)
		case create:
			h.noteCreate(f.account, a)
		case retry:
			h.noteRetry(c.order, a)
		case repeat:
			h.noteRepeat(c.order, a)
		case other:
			h.noteOther(c.order, a)
		case byRef:
			h.noteByRef(c.order, a)
		case sweep:
			h.noteSweep(a)
		}
	}
}

func (h *history) noteOrder(o *sentOrder, a *wire.Answer) {
	if !o.amends() && a.Order != o.element() {
		h.complainLocked("order %+v is answered with %+v", *o, *a)
	}
	switch {
	case a.Kind == "error":
		// A new ref looks like an old one now and then, which only Postgres can tell from it.
		if !o.mayRefuse(a.Error) && !h.noRoomNow(a) {
			h.complainLocked("order %+v is refused: %s", *o, a.Error)
		}
		o.fate = refused
		h.counts.Refused++
		h.counts.Errors[kindOf(a.Error)]++
	case a.Kind == "opened" && !o.amends():
		o.fate, o.id, o.first = answered, number(a.ID), a
		h.counts.Answered++
		h.noteID(o)
	case a.Kind == "amended" && o.amends():
		o.first = a
		h.noteAmend(o, a)
	default:
		h.complainLocked("an order is answered with %+v", *a)
	}
}

// noteID takes in the id that an order, or what an amend put in its place, was given.
func (h *history) noteID(o *sentOrder) {
	if other, double := h.ids[o.id]; double {
		h.complainLocked("order id %d was given to orders %d and %d", o.id, other, serial(o.amount))
	}
	if o.id <= o.after {
		h.complainLocked("order id %d was given to an order that was sent after %d was told", o.id, o.after)
	}
	h.ids[o.id] = serial(o.amount)
	h.recent = append(h.recent, o.id)
	h.highest = max(h.highest, o.id)
}

// noteSweep takes in the answer to a cancel-all, or to a cancel-after.
func (h *history) noteSweep(a *wire.Answer) {
	switch {
	case a.Kind == "canceled-all" || a.Kind == "cancel-after":
		h.counts.CanceledAll++
	case a.Kind != "error" || !strings.Contains(a.Error, "more than ten times a second") && !h.noRoomNow(a):
		h.complainLocked("a cancel-all or a cancel-after is answered with %+v", *a)
	}
}

// noRoomNow reports whether an answer says that the disk is full, while one is.
func (h *history) noRoomNow(a *wire.Answer) bool {
	return h.noRoom.Load() && strings.Contains(a.Error, "its disk has no room")
}

// noteStatus takes in the answer to a query or a cancel. Answers about one order
// may be read in another order than they were made: the one that tells most counts.
func (h *history) noteStatus(c command, a *wire.Answer) {
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
	case a.Kind == "error" && strings.HasPrefix(a.Error, "there is no order"):
		h.complainLocked("of order %d, which was answered, the exchange says: %s", c.id, a.Error)
	case a.Kind == "error" && !strings.Contains(a.Error, "has nothing open") &&
		!strings.Contains(a.Error, "does not answer now"):
		h.complainLocked("a %s of order %d is refused: %s", want, c.id, a.Error)
	case a.Kind == "error":
		h.counts.Errors[kindOf(a.Error)]++
	case a.Kind != want:
		h.complainLocked("a %s of order %d is answered with %+v", want, c.id, *a)
	default:
		o := h.orders[h.ids[c.id]]
		if o == nil {
			return // of an earlier round, and checked
		}
		if a.Canceled != "" || !o.canceled && len(a.Executed) >= len(o.told.Executed) {
			if o.canceled && (a.Canceled != o.told.Canceled || a.CanceledAt != o.told.CanceledAt ||
				!slices.Equal(a.Executed, o.told.Executed)) {
				h.complainLocked("order %d changed after its cancel: %+v, then %+v", c.id, o.told, *a)
			}
			o.told, o.canceled = *a, a.Canceled != ""
		}
	}
}

func (h *history) noteCreate(s *sentAccount, a *wire.Answer) {
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

// newRound forgets which orders were told of lately.
func (h *history) newRound() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = h.recent[:0]
}

// answeredNow returns how many orders have been answered so far.
func (h *history) answeredNow() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts.Answered
}

// complaints returns what is wrong so far.
func (h *history) complaints() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.wrong)
}

// figures returns a copy of the counts.
func (h *history) figures() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.counts
	c.Errors = maps.Clone(c.Errors)
	return c
}
