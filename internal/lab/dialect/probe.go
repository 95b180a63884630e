package dialect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Known has the habits that the teacher's profile declares. A declared habit is not probed and not reported as a
// remark. The zero value declares none.
type Known struct {
	Account  string // "id" or "account": the attribute with the account; "auto" or "" is probed
	Length   string // "lf" or "crlf": the end of a length line; "auto" or "" is probed
	Bare     string // "yes" or "no"; "auto" or "" is probed, and so in the fields below
	OneFrame string
	Decimals string // "no": the server accepts only whole numbers
}

// Probe finds out the habits of the server that to connects to, and ignores to's Habits and Remark. It makes
// connections one after another; to.Open may restart the server if the previous connection made it crash. fresh
// must return unused account ids. The remarks are about the habits found that known does not declare, and about
// every other fault in the replies, at most one for each form. Probe needs at most about fourteen times ReplyTime.
// The error is a *Broken if the server never answered or ctx ended; otherwise it names an invalid value in known.
func Probe(ctx context.Context, to *Connector, fresh func() string, known Known) (Habits, []Remark, error) {
	p := prober{to: *to, fresh: fresh, known: known}
	if err := p.say(); err != nil {
		return Habits{}, nil, err
	}
	if err := p.greet(ctx); err != nil {
		return Habits{}, nil, err
	}
	if unknown(known.OneFrame) {
		p.oneFrame(ctx)
	}
	trades := p.account(ctx)
	if trades && unknown(known.Decimals) {
		p.decimals(ctx)
	}
	if trades && !p.habits.OneFrame {
		p.errorCloses(ctx)
	}
	if ctx.Err() != nil {
		return Habits{}, nil, &Broken{Kind: TimedOut, Err: ctx.Err()}
	}
	return p.found(), p.remarks, nil
}

// prober detects habits, one after another, and uses those already found in its own requests.
type prober struct {
	to      Connector
	fresh   func() string
	known   Known
	habits  Habits
	remarks []Remark // the first of each form
	bare    bool     // a reply had no length line
	result  bool     // a reply's root was <result>
}

// unknown reports whether a value of Known leaves the habit to be probed.
func unknown(value string) bool { return value == "" || value == "auto" }

// say sets the known habits. The error names an invalid value.
func (p *prober) say() error {
	for _, k := range []struct {
		name, value, yes, no string
		habit                *bool
	}{
		{"account", p.known.Account, "account", "id", &p.habits.AccountAttribute},
		{"length", p.known.Length, "crlf", "lf", &p.habits.CRLF},
		{"bare", p.known.Bare, "yes", "no", &p.habits.Bare},
		{"oneframe", p.known.OneFrame, "yes", "no", &p.habits.OneFrame},
		{"decimals", p.known.Decimals, "no", "yes", &p.habits.Whole},
	} {
		switch {
		case k.value == k.yes:
			*k.habit = true
		case k.value != k.no && !unknown(k.value):
			return fmt.Errorf("habits: %s is %q; it must be auto, %s or %s", k.name, k.value, k.yes, k.no)
		}
	}
	return nil
}

// found returns the habits found so far.
func (p *prober) found() Habits {
	h := p.habits
	h.Bare = h.Bare || p.bare && unknown(p.known.Bare)
	h.WrongLength = p.remarked(Length)
	h.ResultRoot = p.result
	return h
}

// addRemark keeps r if it is the first remark of its form.
func (p *prober) addRemark(r Remark) {
	if !p.remarked(r.Form) {
		p.remarks = append(slices.Clip(p.remarks), r) // copies of p share the earlier remarks
	}
}

// remarked reports whether there is a remark of this form.
func (p *prober) remarked(form Form) bool {
	return slices.ContainsFunc(p.remarks, func(r Remark) bool { return r.Form == form })
}

// ask sends documents one after another on one Conn, until one gets no reply. It returns the replies before that,
// and the error, a *Broken.
func (p *prober) ask(ctx context.Context, docs ...string) (replies []*Reply, err error) {
	dialer := p.to
	dialer.Options.Habits, dialer.Options.Remark = p.found(), p.addRemark
	c, err := dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, doc := range docs {
		r, err := c.Do(ctx, doc)
		if err != nil {
			return replies, err
		}
		r.Judge()
		p.bare = p.bare || r.Declared == NoLength
		p.result = p.result || r.Root.Name == "result"
		replies = append(replies, r)
	}
	return replies, nil
}

// done reports whether the first child of a reply has this name, which means that the request was executed.
func done(r *Reply, name string) bool {
	return len(r.Root.Children) > 0 && r.Root.Children[0].Name == name
}

// opening returns a document that opens a fresh account.
func (p *prober) opening() string {
	return `<create><account id="` + p.fresh() + `" balance="100"/></create>`
}

// greet finds out how the server expects a length line to end: with CR LF if the server executes a request only
// then, otherwise with LF. The error is a *Broken if the server never answered.
func (p *prober) greet(ctx context.Context) error {
	ways := []bool{false, true}
	if !unknown(p.known.Length) {
		ways = []bool{p.habits.CRLF}
	}
	var first *prober // the first try that got any bytes
	var nothing error // the error of the first try
	for _, crlf := range ways {
		try := *p
		try.habits.CRLF = crlf
		doc := p.opening()
		replies, err := try.ask(ctx, doc)
		if err == nil && done(replies[0], "created") {
			if crlf && unknown(p.known.Length) {
				try.addRemark(Remark{Form: LengthLine, Sent: string(Frame(doc, true)), Got: replies[0].Raw,
					Detail: "a frame is answered only if its length ends with CR LF instead of LF"})
			}
			*p = try
			return nil
		}
		if first == nil && (err == nil || gotSomething(err)) {
			first = &try
		}
		nothing = cmp.Or(nothing, err)
	}
	if first == nil {
		return nothing
	}
	first.habits.CRLF = first.habits.CRLF && !unknown(p.known.Length)
	*p = *first
	return nil
}

// gotSomething reports whether err is a *Broken after bytes arrived, even if they were no reply.
func gotSomething(err error) bool {
	var b *Broken
	return errors.As(err, &b) && b.Got != ""
}

// oneFrame determines whether a connection carries only one frame: then a second frame is answered on a new
// connection, but not after the first.
func (p *prober) oneFrame(ctx context.Context) {
	replies, err := p.ask(ctx, p.opening(), p.opening())
	if err == nil || len(replies) != 1 {
		return
	}
	_, err = p.ask(ctx, p.opening())
	p.habits.OneFrame = err == nil
}

// account finds out which attribute of <transactions> has the account, and reports whether the server
// accepts an order with either of them.
func (p *prober) account(ctx context.Context) bool {
	before := *p
	seen, ok := p.trade(ctx, "100", "10")
	if ok || !unknown(p.known.Account) {
		return ok
	}
	with := before // drops the remarks of requests with the wrong attribute
	with.habits.AccountAttribute = true
	if _, ok := with.trade(ctx, "100", "10"); !ok {
		return false
	}
	*p = with
	seen.Form = AccountAttribute
	seen.Detail = `an order is accepted in <transactions account="…">, and not in <transactions id="…">`
	p.addRemark(seen)
	return true
}

// decimals finds out whether the server accepts only whole numbers: a trade with fractions fails, and
// one with whole numbers after it succeeds.
func (p *prober) decimals(ctx context.Context) {
	before := *p
	if _, ok := p.trade(ctx, "100.5", "10.5"); ok {
		return
	}
	*p = before
	_, p.habits.Whole = p.trade(ctx, "100", "10")
}

// trade opens an account, makes a symbol and sends an order. It reports whether all succeeded, and
// returns the last exchange of frames.
func (p *prober) trade(ctx context.Context, balance, limit string) (seen Remark, ok bool) {
	docs := p.trading(balance, limit)
	replies, _ := p.ask(ctx, docs...)
	if n := len(replies); n < len(docs) {
		return Remark{Sent: docs[n]}, false
	}
	seen = Remark{Sent: docs[1], Got: replies[1].Raw}
	return seen, done(replies[0], "created") && done(replies[1], "opened")
}

// trading returns two documents: one opens an account and creates a symbol, the other buys a share of it.
func (p *prober) trading(balance, limit string) []string {
	id := p.fresh()
	sym := strings.Map(func(digit rune) rune { return digit - '0' + 'A' }, id) // letters: every server accepts them
	return []string{
		fmt.Sprintf(`<create><account id="%s" balance="%s"/>`, id, balance) +
			fmt.Sprintf(`<symbol sym="%s"><account id="%s">1</account></symbol></create>`, sym, id),
		fmt.Sprintf(`<transactions id="%s"><order sym="%s" amount="1" limit="%s"/></transactions>`, id, sym, limit),
	}
}

// errorCloses finds out whether the server closes the connection after a reply with an error: if so, the frame
// after an order that costs too much is answered only on another connection.
func (p *prober) errorCloses(ctx context.Context) {
	docs := append(p.trading("100", "1000"), p.opening())
	replies, err := p.ask(ctx, docs...)
	if err == nil || len(replies) != len(docs)-1 || !hasError(replies[1].Root) {
		return
	}
	_, err = p.ask(ctx, p.opening())
	p.habits.ErrorCloses = err == nil
}
