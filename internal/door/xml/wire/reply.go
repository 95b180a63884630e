package wire

import (
	"strconv"
	"unicode/utf8"

	"outcry/internal/exchange"
)

// Places returns the number of places in the reply; each place holds one answer. It is 0 if the frame is
// refused as a whole or contains no requests; AppendReply then makes the reply.
func (r *Request) Places() int {
	if r.refusal != "" {
		return 0
	}
	return len(r.slots)
}

// Command returns the index in Commands of the command that is answered in place i. It is -1 if the place
// holds an error without a command.
func (r *Request) Command(i int) int { return r.slots[i].command }

// ExecutionBytesMin is the smallest size of an execution in a reply, in bytes.
const ExecutionBytesMin = len(`<executed shares="1" price="1" time="1"/>`)

// ReplyBegin and ReplyEnd enclose the answers in a reply. Callers that use AppendAnswer add them.
const (
	ReplyBegin = "<results>"
	ReplyEnd   = "</results>"
)

// AppendAnswer appends the answer in place i and returns dst. results are the results of r.Commands in
// the same order; only those that the place needs must be set.
func (r *Request) AppendAnswer(dst []byte, i int, results []exchange.Result) []byte {
	s := &r.slots[i]
	if s.symbol >= 0 && results[s.symbol].Reason == exchange.RulesDiffer {
		return r.appendWhole(dst, s, &results[s.symbol])
	}
	if s.command < 0 {
		return appendError(dst, r.echo(i), s.text)
	}
	c, result := &r.Commands[s.command], &results[s.command]
	if result.Reason == exchange.OK {
		return appendDone(dst, r.echo(i), c, result)
	}
	if s.symbol >= 0 && results[s.symbol].Reason != exchange.OK {
		c, result = &r.Commands[s.symbol], &results[s.symbol] // report the failed symbol, which is the cause
	}
	return appendError(dst, r.echo(i), result.Text(c))
}

// appendWhole appends the error for a <symbol> whose rules were refused. It appears once for the whole
// <symbol>, in its first place; for other places appendWhole appends nothing.
func (r *Request) appendWhole(dst []byte, s *slot, result *exchange.Result) []byte {
	if s.around == nil {
		return dst
	}
	return appendError(dst, echo{sent: s.around}, result.Text(&r.Commands[s.symbol]))
}

// AppendRefusal appends the refusal as an error in place i, instead of the answer, and returns dst.
func (r *Request) AppendRefusal(dst []byte, i int, refusal exchange.Refusal) []byte {
	return appendError(dst, r.echo(i), refusal.Text)
}

// echo returns the attributes that the reply repeats in place i.
func (r *Request) echo(i int) echo {
	begin := 0
	if i > 0 {
		begin = r.slots[i-1].echoEnd
	}
	return echo{r.slots[i].sent, r.echoes[begin:r.slots[i].echoEnd]}
}

// AppendReply appends the whole reply to r, a <results> element without a length line, and returns it.
// results are the results of r.Commands in the same order; AppendReply panics if there are fewer. It
// changes neither r nor results.
func (r *Request) AppendReply(dst []byte, results []exchange.Result) []byte {
	if r.refusal != "" {
		return AppendError(dst, r.refusal)
	}
	if r.session != nil {
		return r.session.append(dst)
	}
	if len(r.slots) == 0 {
		return append(dst, "<results/>"...)
	}
	dst = append(dst, ReplyBegin...)
	for i := range r.slots {
		dst = r.AppendAnswer(dst, i, results)
	}
	return append(dst, ReplyEnd...)
}

// AppendError appends a reply that consists of one error and returns it. Any text is allowed: it is put
// on one line, cut to a maximum length, and escaped.
func AppendError(dst []byte, text string) []byte {
	dst = append(dst, "<results>"...)
	dst = appendError(dst, echo{}, text)
	return append(dst, "</results>"...)
}

// appendDone appends the answer to a command that succeeded.
func appendDone(dst []byte, e echo, c *exchange.Command, r *exchange.Result) []byte {
	switch c.Kind {
	case exchange.OpenAccount, exchange.MakeSymbol, exchange.DepositShares:
		dst = append(dst, "<created"...)
		return append(e.append(dst), "/>"...)
	case exchange.PlaceOrder:
		dst = append(dst, "<opened"...)
		dst = appendOrderID(e.append(dst), "id", r.Order)
		if !c.Report {
			return append(dst, "/>"...)
		}
		return append(appendReport(append(dst, '>'), r), "</opened>"...)
	case exchange.QueryOrder:
		return appendStatus(dst, "status", e, c, r)
	case exchange.CancelOrder:
		return appendStatus(dst, "canceled", e, c, r)
	case exchange.AmendOrder:
		return appendAmended(dst, e, c, r)
	case exchange.CancelAll:
		dst = append(e.append(append(dst, "<canceled-all"...)), ` count="`...)
		return append(strconv.AppendInt(dst, int64(r.Answer.Canceled), 10), `"/>`...)
	case exchange.SetSwitch:
		return append(e.append(append(dst, "<cancel-after"...)), "/>"...)
	case exchange.ShowAccount:
		return appendAccount(dst, r.Answer.Account)
	case exchange.ListOrders:
		return appendOrders(dst, r.Answer.Orders)
	case exchange.ListFills:
		return appendFills(dst, r.Answer.Fills)
	case exchange.ShowOrder: // not part of the XML protocol
	}
	panic("wire: no reply to a command of kind " + c.Kind.String())
}

// appendError appends <error> with the repeated attributes of the request.
func appendError(dst []byte, e echo, text string) []byte {
	dst = append(dst, "<error"...)
	dst = append(e.append(dst), '>')
	dst = appendText(dst, text)
	return append(dst, "</error>"...)
}

// appendAttr appends an attribute with its value escaped.
func appendAttr(dst []byte, name, value string) []byte {
	dst = append(append(dst, ' '), name...)
	dst = append(dst, `="`...)
	return append(appendEscaped(dst, value), '"')
}

// appendEscaped appends a value, escaped for use in an attribute or as content so that a parser reads
// the same value: white space other than the space becomes a character reference.
func appendEscaped(dst []byte, value string) []byte {
	plain := plainLen(value)
	dst = append(dst, value[:plain]...)
	for i := plain; i < len(value); i++ {
		switch c := value[i]; c {
		case '&':
			dst = append(dst, "&amp;"...)
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '"':
			dst = append(dst, "&quot;"...)
		case '\t':
			dst = append(dst, "&#x9;"...)
		case '\n':
			dst = append(dst, "&#xA;"...)
		case '\r':
			dst = append(dst, "&#xD;"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// plainLen returns the length of the longest prefix of s that needs no escaping; usually that is all of s.
func plainLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '&' || c == '<' || c == '>' || c == '"' {
			return i
		}
	}
	return len(s)
}

// errorBytesMax is the largest size of an error text, as sent, in bytes.
const errorBytesMax = 500

// appendText appends a human-readable text: on one line, cut to errorBytesMax, and without characters
// that XML does not allow.
func appendText(dst []byte, text string) []byte {
	plain := min(plainLen(text), errorBytesMax)
	most := len(dst) + errorBytesMax
	dst = append(dst, text[:plain]...)
	for _, c := range text[plain:] {
		begin := len(dst)
		switch {
		case c == '&':
			dst = append(dst, "&amp;"...)
		case c == '<':
			dst = append(dst, "&lt;"...)
		case c == '>':
			dst = append(dst, "&gt;"...)
		case c == '\n' || c == '\r' || c == '\t':
			dst = append(dst, ' ')
		case c < ' ' || c == 0xfffe || c == 0xffff:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = utf8.AppendRune(dst, c)
		}
		if len(dst) > most {
			return append(dst[:begin], ellipsis...)
		}
	}
	return dst
}

// clip shortens a client's name or value to 64 bytes, for use in an error text.
func clip(s string) string { return shorten(s, 64) }

// shorten returns s if it has at most n bytes, else about its first n bytes and an ellipsis.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}

// ellipsis replaces the part of a text that was cut.
const ellipsis = "…"
