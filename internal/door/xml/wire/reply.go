package wire

import (
	"strconv"
	"unicode/utf8"

	"outcry/internal/exchange"
)

// Places returns how many places the reply has, each with one answer. It is 0 if the
// frame is refused as a whole or asks for nothing: AppendReply makes that reply.
func (r *Request) Places() int {
	if r.refusal != "" {
		return 0
	}
	return len(r.slots)
}

// Command returns the index in Commands of what is answered in place i, -1 if no
// command leads to that place: it holds an error.
func (r *Request) Command(i int) int { return r.slots[i].command }

// ExecutionBytesMin is what each execution takes in a reply at least.
const ExecutionBytesMin = len(`<executed shares="1" price="1" time="1"/>`)

// A caller that makes a reply place by place puts these around its answers.
const (
	ReplyBegin = "<results>"
	ReplyEnd   = "</results>"
)

// AppendAnswer appends the answer in place i and returns dst. results are those of
// r.Commands, in their order; only what the place needs has to be known.
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
		c, result = &r.Commands[s.symbol], &results[s.symbol] // the cause
	}
	return appendError(dst, r.echo(i), result.Text(c))
}

// appendWhole appends the one error that answers a <symbol> whose rules are refused: in its first place.
func (r *Request) appendWhole(dst []byte, s *slot, result *exchange.Result) []byte {
	if s.around == nil {
		return dst
	}
	return appendError(dst, echo{sent: s.around}, result.Text(&r.Commands[s.symbol]))
}

// AppendRefusal appends an error in place i instead of its answer, and returns dst.
func (r *Request) AppendRefusal(dst []byte, i int, refusal exchange.Refusal) []byte {
	return appendError(dst, r.echo(i), refusal.Text)
}

// echo returns what the reply repeats in place i.
func (r *Request) echo(i int) echo {
	begin := 0
	if i > 0 {
		begin = r.slots[i-1].echoEnd
	}
	return echo{r.slots[i].sent, r.echoes[begin:r.slots[i].echoEnd]}
}

// AppendReply appends the reply to r and returns it: <results> with everything in
// it, without a length line. results are those of r.Commands, in their order, and
// as many; anything else panics. It changes neither.
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

// AppendError appends a reply that is one error and returns it. Any text will do:
// it is made one line, cut if it is too long, and escaped.
func AppendError(dst []byte, text string) []byte {
	dst = append(dst, "<results>"...)
	dst = appendError(dst, echo{}, text)
	return append(dst, "</results>"...)
}

// appendDone appends what a command that was done is answered with.
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
		return append(strconv.AppendInt(dst, int64(r.More.Count), 10), `"/>`...)
	case exchange.SetSwitch:
		return append(e.append(append(dst, "<cancel-after"...)), "/>"...)
	case exchange.ShowAccount:
		return appendAccount(dst, r.More.AccountView)
	case exchange.ListOrders:
		return appendOrders(dst, r.More.OrdersView)
	case exchange.ListFills:
		return appendFills(dst, r.More.FillsView)
	case exchange.ShowOrder: // is not asked over XML
	}
	panic("wire: no reply to a command of kind " + c.Kind.String())
}

// appendError appends <error> with the attributes that the request had.
func appendError(dst []byte, e echo, text string) []byte {
	dst = append(dst, "<error"...)
	dst = append(e.append(dst), '>')
	dst = appendText(dst, text)
	return append(dst, "</error>"...)
}

// appendAttr appends an attribute.
func appendAttr(dst []byte, name, value string) []byte {
	dst = append(append(dst, ' '), name...)
	dst = append(dst, `="`...)
	return append(appendEscaped(dst, value), '"')
}

// appendEscaped appends a value as an attribute or as content, so that it is read
// back as it is: white space other than the space is written as a reference.
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

// plainLen returns how many characters s begins with that stand for themselves, in
// a value as in a text; mostly that is all of it.
func plainLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '&' || c == '<' || c == '>' || c == '"' {
			return i
		}
	}
	return len(s)
}

// errorBytesMax bounds the text of an error, as it is sent.
const errorBytesMax = 500

// appendText appends a text for people: one line, bounded, and with nothing in it
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

// clip shortens a name or value that a client chose, for an error text.
func clip(s string) string { return shorten(s, 64) }

// shorten returns s, or about its first n bytes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}

// ellipsis stands for what was cut off.
const ellipsis = "…"
