package script

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"outcry/internal/lab/dialect"
)

// moneyVerbs are the facts of ?.
var moneyVerbs = []*verb{
	{name: "? cash", args: "ACCOUNT DOLLARS", check: checkFact(2), run: probeCash,
		tells: "demands that the account has so many dollars that no order holds: to buy one share of a new symbol for " +
			"one dollar more must be refused, and for exactly that be accepted. It may also have what the executions that " +
			"the server reports add up to. Where the case goes on with it, the order is canceled"},
	{name: "? shares", args: "ACCOUNT SYMBOL SHARES", check: checkFact(3), run: probeShares,
		tells: fmt.Sprintf("demands the same of the account's shares of a symbol, by selling for %d dollars", farLimit)},
}

// farLimit is what nobody pays.
const farLimit = 1_000_000

// checkFact returns a verb's check: an account, a symbol if there are three arguments, and a number.
func checkFact(n int) func([]string) error {
	return func(args []string) error {
		switch {
		case len(args) != n:
			return fmt.Errorf("so many words have to stand here: %d, not %d", n, len(args))
		case !isAccountName(args[0]) || reserved[args[0]]:
			return fmt.Errorf("%s is not the name of an account, without its braces", elide(args[0], 40))
		case n == 3 && !isSymbolName(args[1]):
			return fmt.Errorf("%s is not the name of a symbol, without its braces", elide(args[1], 40))
		case number(args[n-1]) == nil || number(args[n-1]).Sign() < 0:
			return fmt.Errorf("%s is not a number from 0 up", elide(args[n-1], 40))
		}
		return nil
	}
}

// probeCash does ? cash.
func probeCash(ctx context.Context, p *play, s *Step) error {
	account := p.name(s.args[0])
	reported, err := p.reported(ctx, account, "")
	if err != nil {
		return err
	}
	sym := fmt.Sprintf("PROBE%d", len(p.names)) // new each time: the names get more
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

// probeShares does ? shares.
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

// endsWith reports whether no line behind one needs what its probe leaves held: all of them ask for
// facts, and for others.
func (p *play) endsWith(s *Step) bool {
	return !slices.ContainsFunc(p.c.Steps, func(o Step) bool {
		if o.line <= s.line {
			return false
		}
		return o.kind != act || !strings.HasPrefix(o.verb.name, "?") || o.verb == s.verb &&
			strings.HasPrefix(o.text, strings.Join(s.args[:len(s.args)-1], " ")+" ")
	})
}

// fact is what an account is to have.
type fact struct {
	account string // id
	of      string // dollars, or shares
	last    bool   // what the probe leaves held is not asked for again
	order   func(n string) string
}

// probe asks for a fact. What is due is what the protocol says or, if that is another amount, what the
// server's own reports add up to: a wrong price is for another case. The higher is asked for first, so
// that nothing is held until one is found.
func (f *fact) probe(ctx context.Context, p *play, protocol string, reported *big.Rat) error {
	dues := []*big.Rat{number(protocol)}
	if reported != nil && reported.Sign() >= 0 && reported.Cmp(dues[0]) != 0 && p.canSend(reported) {
		dues = append(dues, reported)
		slices.SortFunc(dues, func(a, b *big.Rat) int { return b.Cmp(a) })
	}
	for i, due := range dues {
		more := new(big.Rat).Add(due, big.NewRat(1, 1))
		if !due.IsInt() { // fractions: by a hundredth
			more.Add(due, big.NewRat(1, 100))
		}
		if i == 0 || more.Cmp(dues[i-1]) < 0 { // otherwise it was refused already
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

// due says what an account must have.
func (f *fact) due(protocol string, reported *big.Rat, dues []*big.Rat) string {
	text := fmt.Sprintf("%s free %s", protocol, f.of)
	if len(dues) > 1 {
		text += fmt.Sprintf(" (%s by the executions that its orders are said to have)", decimal(reported))
	}
	return text
}

// shows says how an order shows what an account has.
const shows = "What an account has shows in what it can still order: a buy needs amount × limit in dollars, and a " +
	"sell its shares."

// accepts sends an order for n, and returns its <opened>; nil if it was refused.
func (f *fact) accepts(ctx context.Context, p *play, n *big.Rat) (*dialect.Element, error) {
	reply, err := p.do(ctx, `<transactions id="`+f.account+`">`+f.order(decimal(n))+`</transactions>`)
	if err != nil {
		return nil, err
	}
	answers := answersOf(reply.Root)
	if len(answers) != 1 || answers[0].Name != "opened" && answers[0].Name != "error" {
		p.trace.wanted(p.trace.turn, "<results><opened/></results> or <results><error>…</error></results>")
		return nil, wrongf("The reply to an order must be <opened> or <error>. It has %s%s.", count(len(answers), "answer"),
			behindColon(names(answers)))
	}
	reply.Judge()
	if answers[0].Name == "error" {
		return nil, nil
	}
	return answers[0], nil
}

// back cancels an order where the case goes on. Whether that was done is for other cases.
func (f *fact) back(ctx context.Context, p *play, opened *dialect.Element) error {
	if f.last {
		return nil
	}
	_, err := p.do(ctx, fmt.Sprintf(`<transactions id="%s"><cancel id="%s"/></transactions>`, f.account,
		quoted.Replace(attribute(opened, "id"))))
	return err
}

// canSend reports whether a number can be asked for: the server may want whole ones, and all are below
// 2^31 with at most 8 digits behind the point.
func (p *play) canSend(n *big.Rat) bool {
	exact, _ := new(big.Rat).SetString(decimal(n))
	return exact.Cmp(n) == 0 && n.Cmp(big.NewRat(1<<31-1, 1)) < 0 && (n.IsInt() || !p.Habits.Whole)
}

// decimal writes a number with up to 8 digits behind the point.
func decimal(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(8), "0")
}
