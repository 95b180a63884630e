package script

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/grade/faulty"
)

// bought is a conversation in which b, who has 1000, buys 10 of the 15 shares of s at 40, with a limit of
// 50. c and d do not trade.
const bought = `
>  <create><account id="{b}" balance="1000"/><account id="{s}" balance="1000"/><account id="{c}" balance="0"/>
   <account id="{d}" balance="0.75"/><symbol sym="{S}"><account id="{s}">15</account></symbol></create>
<  <created/><created/><created/><created/><created/>
>  <transactions id="{s}"><order sym="{S}" amount="-10" limit="40"/></transactions>
<  <opened/>
>  <transactions id="{b}"><order sym="{S}" amount="10" limit="50"/></transactions>
<  <opened/>
`

// Facts hold, also when the case continues after a probe.
func TestFactsOfMoneyHold(t *testing.T) {
	for lines, cancels := range map[string]int{
		"? cash b 600\n": 0, "? cash s 1400\n": 0, "? cash c 0\n": 0, "? cash d 0.75\n": 0,
		"? shares b S 10\n": 0, "? shares s S 5\n": 0, "? shares b T 0\n": 0,
		"? cash b 600\n? shares b S 10\n? cash s 1400\n? shares s S 5\n":   0,
		"? cash b 600\n? cash b 600\n":                                     1,
		"? shares b S 10\n? cash b 600\n? shares b S 10\n> <create/>\n<\n": 3,
	} {
		var mu sync.Mutex
		var docs []string
		p := twin(t, func(doc, reply string) string {
			mu.Lock()
			defer mu.Unlock()
			docs = append(docs, doc)
			return reply
		})
		if strings.Contains(lines, " T ") {
			lines = "> <create><symbol sym=\"{T}\"/></create>\n<  <created/>\n" + lines
		}
		out := p.Play(t.Context(), parse(t, "money", bought+lines))
		require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out, lines)
		mu.Lock()
		all := strings.Join(docs, "\n")
		mu.Unlock()
		require.Equal(t, cancels, strings.Count(all, "<cancel "), "%s\n%s", lines, all)
		require.Equal(t, strings.Contains(lines, "0.75"), strings.Contains(all, `limit="0.76"`), all)
	}
}

func TestFactsOfMoneyFindFaults(t *testing.T) {
	const accepted, refused = "but it was accepted.", "but it was refused."
	for _, c := range []struct{ fault, line, says string }{
		{"no-improvement", "? cash b 600", "Account 1567890001 must have 600 free dollars now: an order for exactly that " +
			"must be accepted, " + refused},
		{"seller-unpaid", "? cash s 1400", refused},
		{"no-delivery", "? shares b S 10", refused},
		{"overdraft", "? cash c 0", "Account 1567890003 must have 0 free dollars now: an order for 1 must be refused, " +
			accepted},
		{"overdraft", "? cash b 600", "an order for 601 must be refused, " + accepted},
		{"short-sales", "? shares s S 5", "an order for 6 must be refused, " + accepted},
	} {
		out := faultyPlayer(t, faulty.Options{Faults: []string{c.fault}}).
			Play(t.Context(), parse(t, "money", bought+c.line+"\n"))
		require.Equal(t, Fail, out.Status, "%s %s", c.fault, c.line)
		require.Contains(t, out.Message, c.says, "%s %s", c.fault, c.line)
		require.True(t, strings.HasPrefix(out.Conversation[len(out.Conversation)-1], "! <results><"), out.Conversation)
	}
}

// If a server executes at a wrong price, money that agrees with that price is accepted.
func TestMoneyFollowsTheExecutionsThatAreReported(t *testing.T) {
	for line, says := range map[string]string{"? cash b 600": "", "? cash s 1400": "", "? shares b S 10": "",
		"? cash b 555": "",
	} {
		out := faultyPlayer(t, faulty.Options{Faults: []string{"incoming-price"}}).
			Play(t.Context(), parse(t, "money", bought+line+"\n"))
		require.Equal(t, Pass, out.Status, "%s: %s %v", line, out.Message, says)
	}
	out := faultyPlayer(t, faulty.Options{Faults: []string{"incoming-price", "seller-unpaid"}}).
		Play(t.Context(), parse(t, "money", bought+"? cash s 1400\n"))
	require.Contains(t, out.Message, "1400 free dollars (1500 by the executions that were reported for its orders) now")
}

// Reports that do not say what an order has executed are ignored: the protocol's amount must hold.
func TestReportsThatSayNothingAreLeftOut(t *testing.T) {
	for name, alter := range map[string]func(doc, reply string) string{
		"no status": func(doc, reply string) string { return strings.ReplaceAll(reply, "status", "error") },
		"too few":   func(doc, reply string) string { return strings.Replace(reply, "<status", "<!-- --><status", 1) },
		"wrong ones": func(_, reply string) string {
			return strings.ReplaceAll(reply, ` price="40"`, ` price="50"`)
		},
		"no price": func(doc, reply string) string { return strings.ReplaceAll(reply, ` price="40"`, "") },
		"a fraction": func(doc, reply string) string {
			if strings.Contains(doc, "99.5") {
				return "<results><error>no whole number</error><error>stop</error></results>"
			}
			return strings.ReplaceAll(reply, `price="40"`, `price="40.05"`)
		},
	} {
		p := twin(t, alter)
		p.Habits.Whole = true
		out := p.Play(t.Context(), parse(t, "money", bought+"? cash b 600\n"))
		require.Equal(t, Pass, out.Status, "%s: %s", name, out.Message)
	}
	p := twin(t, func(doc, reply string) string {
		if strings.Contains(doc, `limit="601"`) {
			return "<results/>"
		}
		return reply
	})
	out := p.Play(t.Context(), parse(t, "money", bought+"? cash b 600\n"))
	require.Equal(t, "The reply to an order must be <opened> or <error>. It has no answers.", out.Message)
}

func TestArgumentsOfFacts(t *testing.T) {
	for line, says := range map[string]string{
		"? cash b":           "2 arguments, not 1",
		"? cash {b} 5":       "is not the name of an account",
		"? cash b -1":        "-1 is not a number of 0 or more",
		"? cash b much":      "much is not a number of 0 or more",
		"? shares b s 5":     "s is not the name of a symbol",
		"? shares b S 5 6":   "3 arguments, not 4",
		"? cash part 5":      "part is not the name of an account",
		"| tape 0":           "from 1 to 99",
		"| tape":             "from 1 to 99",
		"| legal 1000":       "from 1 to 256",
		"| load 6":           "from 1 to 5",
		"| tape 1\n| tape x": "from 1 to 99",
	} {
		_, err := Parse("money/try", []byte("case money/try\nrule 4.2\ntell It holds.\n"+line+"\n"))
		require.ErrorContains(t, err, says, line)
	}
}
