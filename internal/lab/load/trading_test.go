package load_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "outcry/internal/lab/load"
)

// forgetful starts a server that answers as an exchange does, except that for some orders it claims that the ref is
// unknown, and for others gives another id.
func forgetful(t *testing.T, lost, doubled string) (addr string) {
	created := regexp.MustCompile(
		`<account id="(\d+)" balance="\d+" ref="bench"/>|<symbol sym="(\w+)"><account id="(\d+)"`)
	order := regexp.MustCompile(`<order (sym="\w+" amount="-?1" limit="100") ref="run:(\d+)"/>`)
	query := regexp.MustCompile(`<query ref="run:(\d+)"/>`)
	return serve(t, func(_, _ int, xml []byte) []byte {
		var answers strings.Builder
		for _, m := range created.FindAllStringSubmatch(string(xml), -1) {
			if m[1] != "" {
				fmt.Fprintf(&answers, `<created id="%s"/>`, m[1])
			} else {
				fmt.Fprintf(&answers, `<created sym="%s" id="%s"/>`, m[2], m[3])
			}
		}
		for _, m := range order.FindAllStringSubmatch(string(xml), -1) {
			fmt.Fprintf(&answers, `<opened %s id="1%s"/>`, m[1], m[2])
		}
		for _, m := range query.FindAllStringSubmatch(string(xml), -1) {
			switch m[1] {
			case lost:
				fmt.Fprintf(&answers, `<error ref="run:%s">account 7 has no order with ref run:%s</error>`, m[1], m[1])
			case doubled:
				answers.WriteString(`<status id="999"><open shares="1"/></status>`)
			default:
				fmt.Fprintf(&answers, `<status id="1%s"><open shares="1"/></status>`, m[1])
			}
		}
		return []byte("<results>" + answers.String() + "</results>")
	})
}

func TestWhatWasToldIsComparedWithWhatIsThere(t *testing.T) {
	o := Trading{Connections: 2, Depth: 3, Duration: time.Minute, Orders: 50, Symbols: 2, Accounts: "7", Run: "run"}
	o.Addr = forgetful(t, "", "")
	r, err := Trade(background, o)
	require.NoError(t, err)
	require.EqualValues(t, 50, r.Requests)
	require.EqualValues(t, 50, r.Asked)
	require.Zero(t, r.Lost+r.Doubled+r.Unanswered+r.Refused+r.Failovers+r.SentAgain)
	require.EqualValues(t, 149-10+1-50, r.Others, "numbers that nobody has")

	o.Addr = forgetful(t, "17", "30")
	r, err = Trade(background, o)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Lost)
	require.EqualValues(t, 1, r.Doubled)
	require.Contains(t, r.Example, "run:")
}

// TestAGapIsTheLongestTimeWithoutAnAnswer uses a server with one late answer.
func TestAGapIsTheLongestTimeWithoutAnAnswer(t *testing.T) {
	var n atomic.Int64
	const late = 300 * time.Millisecond
	inner := regexp.MustCompile(`<order (sym="\w+" amount="-?1" limit="100") ref="r:(\d+)"/>`)
	addr := serve(t, func(_, _ int, xml []byte) []byte {
		m := inner.FindSubmatch(xml)
		if m == nil {
			if strings.Contains(string(xml), "<query") {
				answers := regexp.MustCompile(`<query ref="r:(\d+)"/>`).ReplaceAllString(string(xml), `<status id="1$1"/>`)
				answers = regexp.MustCompile(`</?transactions[^>]*>`).ReplaceAllString(answers, "")
				return fmt.Appendf(nil, `<results>%s</results>`, answers)
			}
			return []byte(`<results><created id="70"/><created id="71"/>` +
				`<created sym="BENCH0" id="71"/></results>`)
		}
		if n.Add(1) == 5 {
			time.Sleep(late)
		}
		return fmt.Appendf(nil, `<results><opened %s id="1%s"/></results>`, m[1], m[2])
	})
	r, err := Trade(background, Trading{Addr: addr, Connections: 1, Depth: 1, Duration: time.Minute, Orders: 10,
		Symbols: 1, Accounts: "7", Run: "r"})
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Requests)
	require.GreaterOrEqual(t, r.Longest.Length, late)
}
