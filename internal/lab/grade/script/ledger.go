package script

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"outcry/internal/lab/dialect"
)

// ledger records the accounts of a play from requests and answers: their deposits and their accepted orders.
type ledger struct {
	cash   map[string]*big.Rat    // by account
	shares map[[2]string]*big.Rat // by account and symbol
	orders map[string][]ordered   // by account
}

// ordered is an order that was accepted.
type ordered struct {
	id, sym string
	buys    bool
	limit   *big.Rat
}

// ledgerOrdersMax is how many orders of an account are queried at most.
const ledgerOrdersMax = 200

// recordReply records a reply, which may be nil, in the ledger if the case has a line that tests a fact.
func (p *play) recordReply(doc string, reply *dialect.Reply) {
	asks := func(s Step) bool { return s.kind == act && strings.HasPrefix(s.verb.name, "?") }
	if reply != nil && slices.ContainsFunc(p.c.Steps, asks) {
		p.ledger.recordReply(doc, reply.Root)
	}
}

// recordReply records a reply to doc. Rejected elements, and answers that cannot be parsed, change nothing.
func (l *ledger) recordReply(doc string, reply *dialect.Element) {
	sent, err := dialect.ParseDoc(doc)
	if err != nil {
		return
	}
	if l.cash == nil {
		*l = ledger{map[string]*big.Rat{}, map[[2]string]*big.Rat{}, map[string][]ordered{}}
	}
	at := 0
	answer := func(kind string) (*dialect.Element, bool) {
		if at++; at > len(reply.Children) {
			return nil, false
		}
		return reply.Children[at-1], reply.Children[at-1].Name == kind
	}
	account := attribute(sent, "id")
	for _, e := range sent.Children {
		switch {
		case e.Name == "account":
			if _, ok := answer("created"); ok {
				add(l.cash, attribute(e, "id"), number(attribute(e, "balance")))
			}
		case e.Name == "symbol" && len(e.Children) > 0:
			for _, child := range e.Children {
				if _, ok := answer("created"); ok {
					add(l.shares, [2]string{attribute(child, "id"), attribute(e, "sym")}, number(child.Text))
				}
			}
		case e.Name == "order":
			if a, ok := answer("opened"); ok {
				amount, limit := number(attribute(e, "amount")), number(attribute(e, "limit"))
				if amount != nil && limit != nil {
					l.orders[account] = append(l.orders[account],
						ordered{attribute(a, "id"), attribute(e, "sym"), amount.Sign() > 0, limit})
				}
			}
		default:
			answer("")
		}
	}
}

func attribute(e *dialect.Element, name string) string {
	value, _ := e.Attr(name)
	return value
}

// add adds v to an entry, unless v is nil.
func add[K comparable](to map[K]*big.Rat, key K, v *big.Rat) {
	if v == nil {
		return
	}
	if to[key] == nil {
		to[key] = new(big.Rat)
	}
	to[key].Add(to[key], v)
}

// reported returns what an account has left according to the server's current reports of its orders: shares of sym,
// or dollars if sym is empty. It returns nil if the account has no orders, or if the reports lack a number.
func (p *play) reported(ctx context.Context, account, sym string) (*big.Rat, error) {
	orders := p.ledger.orders[account]
	if len(orders) == 0 || len(orders) > ledgerOrdersMax {
		return nil, nil
	}
	var queries strings.Builder
	for _, o := range orders {
		fmt.Fprintf(&queries, `<query id="%s"/>`, quoted.Replace(o.id))
	}
	reply, err := p.do(ctx, `<transactions id="`+account+`">`+queries.String()+`</transactions>`)
	if err != nil {
		return nil, err
	}
	answers := answersOf(reply.Root)
	if len(answers) != len(orders) {
		return nil, nil
	}
	left := new(big.Rat)
	if begun := p.ledger.cash[account]; sym == "" && begun != nil {
		left.Set(begun)
	} else if begun := p.ledger.shares[[2]string{account, sym}]; sym != "" && begun != nil {
		left.Set(begun)
	}
	for i, o := range orders {
		if sym != "" && sym != o.sym {
			continue
		}
		changed := o.changed(answers[i], sym == "")
		if changed == nil {
			return nil, nil
		}
		left.Add(left, changed)
	}
	return left, nil
}

// changed returns by how much an order has changed its account's dollars or shares, according to a <status>. It
// returns nil if the <status> lacks a number.
func (o *ordered) changed(status *dialect.Element, dollars bool) *big.Rat {
	if status.Name != "status" {
		return nil
	}
	sum := new(big.Rat)
	for _, part := range status.Children {
		n, price := number(attribute(part, "shares")), number(attribute(part, "price"))
		if n == nil || part.Name == "executed" && price == nil {
			return nil
		}
		n.Abs(n)
		switch executed := part.Name == "executed"; {
		case executed && dollars:
			n.Mul(n, price)
		case executed:
		case part.Name == "open" && dollars == o.buys:
			if dollars {
				n.Mul(n, o.limit)
			}
		default: // canceled shares, or open shares that the account would receive
			continue
		}
		if dollars == o.buys {
			n.Neg(n)
		}
		sum.Add(sum, n)
	}
	return sum
}
