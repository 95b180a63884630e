package script

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"outcry/internal/lab/dialect"
)

// moneyVerbs are the facts that a line with ? can test.
var moneyVerbs = []*verb{
	{name: "? cash", args: "ACCOUNT DOLLARS", check: checkFact(2), run: probeCash,
		tells: "requires that the account has this many dollars that no order holds: a buy of one share of a new " +
			"symbol for one dollar more must be refused, and for exactly this amount accepted. The amount may also be the one " +
			"that follows from the executions that the server reports. If later lines depend on the account, the order is " +
			"canceled"},
	{name: "? shares", args: "ACCOUNT SYMBOL SHARES", check: checkFact(3), run: probeShares,
		tells: fmt.Sprintf("requires the same of the account's shares of a symbol, by selling for %d dollars", farLimit)},
}

// farLimit is a limit in dollars at which no buy order would match.
const farLimit = 1_000_000

// checkFact returns the check of a verb with n arguments: an account, a symbol if n is 3, and a number.
func checkFact(n int) func([]string) error {
	return func(args []string) error {
		switch {
		case len(args) != n:
			return fmt.Errorf("it needs %d arguments, not %d", n, len(args))
		case !isAccountName(args[0]) || reserved[args[0]]:
			return fmt.Errorf("%s is not the name of an account, without its braces", elide(args[0], 40))
		case n == 3 && !isSymbolName(args[1]):
			return fmt.Errorf("%s is not the name of a symbol, without its braces", elide(args[1], 40))
		case number(args[n-1]) == nil || number(args[n-1]).Sign() < 0:
			return fmt.Errorf("%s is not a number of 0 or more", elide(args[n-1], 40))
		}
		return nil
	}
}

// probeCash runs ? cash.
func probeCash(ctx context.Context, p *play, s *Step) error {
	account := p.name(s.args[0])
	reported, err := p.reported(ctx, account, "")
	if err != nil {
		return err
	}
	sym := fmt.Sprintf("PROBE%d", len(p.names)) // a new symbol each time, since p.names grows
	other := fmt.Sprintf("probe%d", len(p.names))
	err = p.ask(ctx, `<create><account id="{`+other+`}" balance="1"/><symbol sym="{`+sym+`}"><account id="{`+other+
		`}">1</account></symbol></create>`, `<created/><created/>`)
	if err != nil {
		return err
	}
	f := &fact{account: account, of: "dollars", last: p.endsWith(s), order: func(n string) string {
		return fmt.Sprintf(`<order sym="%s" amount="1" limit="%s"/>`, p.name(sym), n)
	}}
	return f.probe(ctx, p, s.args[1], reported)
}

// probeShares runs ? shares.
func probeShares(ctx context.Context, p *play, s *Step) error {
	account, sym := p.name(s.args[0]), p.name(s.args[1])
	reported, err := p.reported(ctx, account, sym)
	if err != nil {
		return err
	}
	f := &fact{account: account, of: "shares", last: p.endsWith(s), order: func(n string) string {
		return fmt.Sprintf(`<order sym="%s" amount="-%s" limit="%d"/>`, sym, n, farLimit)
	}}
	return f.probe(ctx, p, s.args[2], reported)
}

// endsWith reports whether no later line depends on the holds that the probe of s leaves: all later lines test facts,
// and none of them that of s.
func (p *play) endsWith(s *Step) bool {
	return !slices.ContainsFunc(p.c.Steps, func(o Step) bool {
		if o.line <= s.line {
			return false
		}
		return o.kind != act || !strings.HasPrefix(o.verb.name, "?") || o.verb == s.verb &&
			strings.HasPrefix(o.text, strings.Join(s.args[:len(s.args)-1], " ")+" ")
	})
}

// fact is the amount that an account must have.
type fact struct {
	account string // account id
	of      string // "dollars", or "shares"
	last    bool   // the probe's order may stay open, since no later line depends on it
	order   func(n string) string
}

// probe tests a fact. The right amount is the protocol's, or the one that the server's own reports add up to: other
// cases find wrong prices. The higher of the two is tried first, so that no order holds anything until one is
// accepted.
func (f *fact) probe(ctx context.Context, p *play, protocol string, reported *big.Rat) error {
	dues := []*big.Rat{number(protocol)}
	if reported != nil && reported.Sign() >= 0 && reported.Cmp(dues[0]) != 0 && p.canSend(reported) {
		dues = append(dues, reported)
		slices.SortFunc(dues, func(a, b *big.Rat) int { return b.Cmp(a) })
	}
	for i, due := range dues {
		more := new(big.Rat).Add(due, big.NewRat(1, 1))
		if !due.IsInt() { // for a fraction, a hundredth more
			more.Add(due, big.NewRat(1, 100))
		}
		if i == 0 || more.Cmp(dues[i-1]) < 0 { // otherwise more was rejected in the previous step
			if accepted, err := f.accepts(ctx, p, more); err != nil {
				return err
			} else if accepted != nil {
				p.trace.wanted(p.trace.turn, "<results><error>…</error></results>")
				return wrongf("Account %s must have %s now: an order for %s must be refused, but it was accepted. %s",
					f.account, f.due(protocol, reported, dues), decimal(more), shows)
			}
		}
		if due.Sign() == 0 {
			return nil
		}
		accepted, err := f.accepts(ctx, p, due)
		if err != nil {
			return err
		}
		if accepted != nil {
			return f.back(ctx, p, accepted)
		}
	}
	p.trace.wanted(p.trace.turn, "<results><opened/></results>")
	return wrongf("Account %s must have %s now: an order for exactly that must be accepted, but it was refused. %s",
		f.account, f.due(protocol, reported, dues), shows)
}

// due describes in words what an account must have.
func (f *fact) due(protocol string, reported *big.Rat, dues []*big.Rat) string {
	text := fmt.Sprintf("%s free %s", protocol, f.of)
	if len(dues) > 1 {
		text += fmt.Sprintf(" (%s by the executions that were reported for its orders)", decimal(reported))
	}
	return text
}

// shows explains how orders reveal the holdings of an account.
const shows = "What an account has shows in what it can still order: a buy needs amount × limit in dollars, and a " +
	"sell its shares."

// accepts sends an order for n, and returns its <opened>, or nil if it was rejected.
func (f *fact) accepts(ctx context.Context, p *play, n *big.Rat) (*dialect.Element, error) {
	reply, err := p.do(ctx, `<transactions id="`+f.account+`">`+f.order(decimal(n))+`</transactions>`)
	if err != nil {
		return nil, err
	}
	answers := answersOf(reply.Root)
	if len(answers) != 1 || answers[0].Name != "opened" && answers[0].Name != "error" {
		p.trace.wanted(p.trace.turn, "<results><opened/></results> or <results><error>…</error></results>")
		return nil, wrongf("The reply to an order must be <opened> or <error>. It has %s%s.", count(len(answers), "answer"),
			afterColon(names(answers)))
	}
	reply.Judge()
	if answers[0].Name == "error" {
		return nil, nil
	}
	return answers[0], nil
}

// back cancels the probe's order if later lines depend on it. A failed cancel is for other cases to find.
func (f *fact) back(ctx context.Context, p *play, opened *dialect.Element) error {
	if f.last {
		return nil
	}
	_, err := p.do(ctx, fmt.Sprintf(`<transactions id="%s"><cancel id="%s"/></transactions>`, f.account,
		quoted.Replace(attribute(opened, "id"))))
	return err
}

// canSend reports whether a number can be sent in an order: the server may need whole ones, and all must be
// below 2^31 with at most 8 decimals.
func (p *play) canSend(n *big.Rat) bool {
	exact, _ := new(big.Rat).SetString(decimal(n))
	return exact.Cmp(n) == 0 && n.Cmp(big.NewRat(1<<31-1, 1)) < 0 && (n.IsInt() || !p.Habits.Whole)
}

// decimal formats a number with up to 8 decimals.
func decimal(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(8), "0")
}
