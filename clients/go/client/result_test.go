package client

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// asked has a command of each kind that goes into a <transactions>.
var asked = []Command{buys(1), Sell("1", "SPY", MustDecimal("2.5"), Whole(7)).WithRef("r"), Query("1", 7),
	QueryRef("1", "r"), Cancel("1", 8)}

const replied = `<results><opened sym="SPY" amount="1" limit="1" id="5"/>` +
	`<opened sym="SPY" amount="-2.5" limit="7" id="6" ref="r"/>` +
	`<status id="7"><canceled shares="3" time="1519348326"/>` +
	`<executed shares="0.5" price="1.25" time="1519348325"/></status>` +
	`<status id="6" ref="r"><open shares="2.5"/></status><error id="8">there is no order 8</error></results>`

func TestAnswersBecomeResults(t *testing.T) {
	answers, err := wire.ParseReply([]byte(replied))
	require.NoError(t, err)
	results, err := resultsOf(asked, answers)
	require.NoError(t, err)
	require.Equal(t, []Result{
		{Command: asked[0], Order: 5},
		{Command: asked[1], Order: 6},
		{Command: asked[2], Order: 7, Status: Status{Order: 7, Canceled: Whole(3), CanceledAt: time.Unix(1519348326, 0).UTC(),
			Executed: []Execution{
				{Shares: MustDecimal("0.5"), Price: MustDecimal("1.25"), Time: time.Unix(1519348325, 0).UTC()}}}},
		{Command: asked[3], Order: 6, Status: Status{Order: 6, Open: MustDecimal("2.5")}},
		{Command: asked[4], Refused: &Refused{Sent: asked[4], Text: "there is no order 8"}},
	}, results)
}

// TestAValueThatComesBackCutIsRefusedAsItWasSent: an error reply quotes only a part of a long invalid value,
// and the result still has the value that was sent.
func TestAValueThatComesBackCutIsRefusedAsItWasSent(t *testing.T) {
	var r wire.Request
	order := Buy("1", strings.Repeat("Ä", 500), Whole(1), Whole(1))
	r.Decode(wire.NewTransactions("1").Order(order.Symbol, "1", "1").Append(nil), nil)
	reply := r.AppendReply(nil, nil)
	require.Less(t, len(reply), 500)
	answers, err := wire.ParseReply(reply)
	require.NoError(t, err)
	results, err := resultsOf([]Command{order}, answers)
	require.NoError(t, err)
	require.Equal(t, order, results[0].Refused.Sent)
	require.Contains(t, results[0].Refused.Text, "is not 1 to 32 characters")
}

// FuzzResults: for any reply, each command gets a plausible result, or the reply is rejected as malformed.
func FuzzResults(f *testing.F) {
	f.Add([]byte(replied))
	f.Add([]byte("<results/>"))
	f.Add([]byte("<results><error>the exchange is stopping</error></results>"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		answers, err := wire.ParseReply(reply)
		if err != nil || lastWords(answers) != nil {
			return
		}
		results, err := resultsOf(asked, answers)
		if err != nil {
			require.Nil(t, results)
			return
		}
		require.Len(t, results, len(asked))
		for i := range results {
			r := &results[i]
			require.Equal(t, asked[i], r.Command)
			require.NotEqual(t, r.Refused == nil, r.Order == 0, "an order, or why there is none")
			if r.Command.Order != 0 && r.Refused == nil {
				require.Equal(t, r.Command.Order, r.Order)
			}
			for _, x := range r.Status.Executed {
				require.Positive(t, x.Shares.Sign())
				require.Positive(t, x.Price.Sign())
			}
		}
	})
}
