package dialect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Known are habits that somebody has said. What is said is not probed, and no remark is made of
// it. The zero value says nothing.
type Known struct {
	Account  string // "id" or "account"; "auto" or "" is probed
	Length   string // what ends a length line, "lf" or "crlf"; "auto" or "" is probed
	Bare     string // "yes" or "no"; "auto" or "" is probed; and so the others
	OneFrame string
	Decimals string // "no": numbers have to be whole
}

// Probe finds out the habits of the server of to, whatever Habits and Remark that has. It makes
// connections one after another; to.Open may start the server again if the one before has brought it
// down. fresh returns account ids that nobody has used. The remarks are those of the habits found
// that Known does not say, and of everything else that the replies show, at most one a form. It takes
// at most some fourteen times ReplyTime. The error says that nothing was ever answered, or that ctx
// ended, and is a *Broken; or it names a value that known cannot have.
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

// prober finds out habits, one after another; what it has found out it speaks in.
type prober struct {
	to      Connector
	fresh   func() string
	known   Known
	habits  Habits
	remarks []Remark // the first of each form
	bare    bool     // a reply had no length line
	result  bool     // a reply's root was <result>
}

// unknown reports whether a value of Known says nothing.
func unknown(value string) bool { return value == "" || value == "auto" }

// say takes over what is known. The error names a value that it cannot have.
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
			return fmt.Errorf("habits: %s is %q; it has to be auto, %s or %s", k.name, k.value, k.yes, k.no)
		}
	}
	return nil
}

// found returns the habits.
func (p *prober) found() Habits {
	h := p.habits
	h.Bare = h.Bare || p.bare && unknown(p.known.Bare)
	h.WrongLength = p.remarked(Length)
	h.ResultRoot = p.result
	return h
}

// note keeps the first remark of each form.
func (p *prober) note(r Remark) {
	if !p.remarked(r.Form) {
		p.remarks = append(slices.Clip(p.remarks), r) // copies of p share what was there
	}
}

// remarked reports whether there is a remark of a form.
func (p *prober) remarked(form Form) bool {
	return slices.ContainsFunc(p.remarks, func(r Remark) bool { return r.Form == form })
}

// ask sends documents one after another on one Conn, and returns the replies up to the first that
// does not come, and why it does not: a *Broken.
func (p *prober) ask(ctx context.Context, docs ...string) (replies []*Reply, err error) {
	dialer := p.to
	dialer.Options.Habits, dialer.Options.Remark = p.found(), p.note
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

// done reports whether a reply begins with an element of that name: what was asked for was done.
func done(r *Reply, name string) bool {
	return len(r.Root.Children) > 0 && r.Root.Children[0].Name == name
}

// opening returns a document that opens an account.
func (p *prober) opening() string {
	return `<create><account id="` + p.fresh() + `" balance="100"/></create>`
}

// greet finds out what ends the length line: LF if the server then does what it is asked for,
// CR LF if it does it only then, and otherwise LF. The error is a *Broken: nothing came at all.
func (p *prober) greet(ctx context.Context) error {
	ways := []bool{false, true}
	if !unknown(p.known.Length) {
		ways = []bool{p.habits.CRLF}
	}
	var first *prober // the first that anything came to
	var nothing error // what came to the first
	for _, crlf := range ways {
		try := *p
		try.habits.CRLF = crlf
		doc := p.opening()
		replies, err := try.ask(ctx, doc)
		if err == nil && done(replies[0], "created") {
			if crlf && unknown(p.known.Length) {
				try.note(Remark{Form: LengthLine, Sent: string(Frame(doc, true)), Got: replies[0].Raw,
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

// gotSomething reports whether something came, even if it was no reply.
func gotSomething(err error) bool {
	var b *Broken
	return errors.As(err, &b) && b.Got != ""
}

// oneFrame finds out whether a connection carries more than one frame: if it does not, a second one
// is answered on a connection of its own, but not behind the first.
func (p *prober) oneFrame(ctx context.Context) {
	replies, err := p.ask(ctx, p.opening(), p.opening())
	if err == nil || len(replies) != 1 {
		return
	}
	_, err = p.ask(ctx, p.opening())
	p.habits.OneFrame = err == nil
}

// account finds out which attribute of <transactions> has the account, and reports whether an order
// is accepted with one of them.
func (p *prober) account(ctx context.Context) bool {
	before := *p
	seen, ok := p.trade(ctx, "100", "10")
	if ok || !unknown(p.known.Account) {
		return ok
	}
	with := before // without remarks of what was said in the wrong way
	with.habits.AccountAttribute = true
	if _, ok := with.trade(ctx, "100", "10"); !ok {
		return false
	}
	*p = with
	seen.Form = AccountAttribute
	seen.Detail = `an order is accepted in <transactions account="…">, and not in <transactions id="…">`
	p.note(seen)
	return true
}

// decimals finds out whether numbers have to be whole: what was just done with whole ones is not
// done with others, and again with whole ones.
func (p *prober) decimals(ctx context.Context) {
	before := *p
	if _, ok := p.trade(ctx, "100.5", "10.5"); ok {
		return
	}
	*p = before
	_, p.habits.Whole = p.trade(ctx, "100", "10")
}

// trade opens an account, makes a symbol and sends an order. It reports whether all was done, and
// returns the conversation of the last of it.
func (p *prober) trade(ctx context.Context, balance, limit string) (seen Remark, ok bool) {
	docs := p.trading(balance, limit)
	replies, _ := p.ask(ctx, docs...)
	if n := len(replies); n < len(docs) {
		return Remark{Sent: docs[n]}, false
	}
	seen = Remark{Sent: docs[1], Got: replies[1].Raw}
	return seen, done(replies[0], "created") && done(replies[1], "opened")
}

// trading returns the documents that open an account with a balance and make a symbol, and that buy a share of it.
func (p *prober) trading(balance, limit string) []string {
	id := p.fresh()
	sym := strings.Map(func(digit rune) rune { return digit - '0' + 'A' }, id) // letters: every server takes them
	return []string{
		fmt.Sprintf(`<create><account id="%s" balance="%s"/>`, id, balance) +
			fmt.Sprintf(`<symbol sym="%s"><account id="%s">1</account></symbol></create>`, sym, id),
		fmt.Sprintf(`<transactions id="%s"><order sym="%s" amount="1" limit="%s"/></transactions>`, id, sym, limit),
	}
}

// errorCloses finds out whether the server closes after a reply that has an error: behind an order that is
// too dear nothing is answered on its connection, but on another one it is.
func (p *prober) errorCloses(ctx context.Context) {
	docs := append(p.trading("100", "1000"), p.opening())
	replies, err := p.ask(ctx, docs...)
	if err == nil || len(replies) != len(docs)-1 || !hasError(replies[1].Root) {
		return
	}
	_, err = p.ask(ctx, p.opening())
	p.habits.ErrorCloses = err == nil
}
