package wire

import "outcry/internal/exchange"

// DenyMalformed asks about a frame that has elements which Decode refused: what it is
// for, and of which account, "" if that is not known. If deny returns a refusal, its
// text stands in the place of each of them, and nothing of them is repeated: those
// who may not send such a frame are not told what is wrong with it.
func (r *Request) DenyMalformed(deny func(create bool, account exchange.AccountID) exchange.Refusal) {
	if r.Refused() == 0 || r.refusal != "" {
		return
	}
	refusal := deny(r.creates, r.actsFor)
	for i := range r.slots {
		if s := &r.slots[i]; refusal.Reason != exchange.OK && s.command < 0 {
			s.text, s.sent = refusal.Text, nil
		}
	}
}

// Deny asks about each command in turn, and takes those out of r for which deny returns
// a refusal: that error stands in their place of the reply. Deny returns how many it took out.
func (r *Request) Deny(deny func(c *exchange.Command) exchange.Refusal) (denied int) {
	var texts []string // of all commands; nil while none is denied
	for i := range r.Commands {
		if refusal := deny(&r.Commands[i]); refusal.Reason != exchange.OK {
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
		switch {
		case s.command < 0:
		case moved[s.command] < 0:
			s.command, s.text, s.symbol = -1, texts[s.command], -1
			r.denied++
		default:
			s.command = moved[s.command]
			if s.symbol >= 0 {
				s.symbol = moved[s.symbol]
			}
		}
	}
	return denied
}
