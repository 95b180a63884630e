package wire

import "outcry/internal/exchange"

// JudgeMalformed asks about the elements that Decode refused, for all of which a command of
// their account stands: an account to be opened in <create>, an order in <transactions>. If judge
// returns a refusal, its text stands in the place of each of them, and nothing of them is
// repeated: those who may not send such a frame are not told what is wrong with it. A frame that
// names no account is not asked about: its errors say so, and little else.
func (r *Request) JudgeMalformed(judge func(c *exchange.Command) exchange.Refusal) {
	if r.Refused() == 0 || r.refusal != "" || !r.creates && r.actsFor == "" {
		return // before there is a command, which is garbage: most frames end here
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

// Judge asks about each command in turn, and takes those out of r for which judge returns
// a refusal: that error stands in their place of the reply. It returns how many it took out.
func (r *Request) Judge(judge func(c *exchange.Command) exchange.Refusal) (denied int) {
	var texts []string // of all commands; nil while none is denied
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
	moved := make([]int, len(r.Commands)) // where each is now, -1 for nowhere
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
