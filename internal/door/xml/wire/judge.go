package wire

import "outcry/internal/exchange"

// JudgeMalformed applies judge to the elements that Decode rejected. It calls judge once, with a command of the
// frame's account that represents them all: opening an account for <create>, placing an order for <transactions>. If
// judge returns a refusal, the refusal's text replaces each of these errors and no attributes are repeated, so that
// clients that may not send such a frame do not learn what is wrong with it. judge is not called for a <transactions>
// without a valid account.
func (r *Request) JudgeMalformed(judge func(c *exchange.Command) exchange.Refusal) {
	if r.Refused() == 0 || r.refusal != "" || !r.creates && r.actsFor == "" {
		return // the most common case: return before c is allocated
	}
	c := exchange.Command{Kind: exchange.PlaceOrder, Account: r.actsFor}
	if r.creates {
		c.Kind = exchange.OpenAccount
	}
	refusal := judge(&c)
	for i := range r.slots {
		if s := &r.slots[i]; refusal.Reason != exchange.OK && s.command < 0 {
			s.text, s.sent = refusal.Text, nil
		}
	}
}

// Judge calls judge for each command in turn. It removes each command for which judge returns a refusal;
// the refusal's text becomes the answer in its place. Judge returns how many commands it removed.
func (r *Request) Judge(judge func(c *exchange.Command) exchange.Refusal) (denied int) {
	var texts []string // refusal text of each command; nil while none is refused
	for i := range r.Commands {
		if refusal := judge(&r.Commands[i]); refusal.Reason != exchange.OK {
			if texts == nil {
				texts = make([]string, len(r.Commands))
			}
			texts[i] = refusal.Text
			denied++
		}
	}
	if denied == 0 {
		return 0
	}
	moved := make([]int, len(r.Commands)) // new index of each command; -1 if it is removed
	kept := 0
	for i := range texts {
		moved[i] = -1
		if texts[i] == "" {
			r.Commands[kept] = r.Commands[i]
			moved[i] = kept
			kept++
		}
	}
	clear(r.Commands[kept:])
	r.Commands = r.Commands[:kept]
	for i := range r.slots {
		s := &r.slots[i]
		if s.symbol >= 0 {
			s.symbol = moved[s.symbol]
		}
		switch {
		case s.command < 0:
		case moved[s.command] < 0:
			s.command, s.text, s.symbol = -1, texts[s.command], -1
			r.denied++
		default:
			s.command = moved[s.command]
		}
	}
	return denied
}
