package door

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A token of one account permits neither commands nor queries of another account.
func TestATokenIsForWhatItsAccountDoesAndSees(t *testing.T) {
	const children = `<amend id="1" amount="1"/><cancel-all/><cancel-after seconds="1"/><account/><orders/>` +
		`<fills/><amend/>`
	synctest.Test(t, func(t *testing.T) {
		p, x, k := newPipes(), newFake(), newKeyring(t)
		token, _ := k.add("account:1", time.Time{})
		start(t, p, x, Options{Tokens: k.tokens})
		c := connect(t, p)
		c.send(authFrame(token), frame(`<transactions id="2">`+children+`</transactions>`))
		require.Equal(t, taken, c.reply())
		reply := c.reply()
		require.Equal(t, 7, strings.Count(reply, "the token of this connection is not for account 2"), reply)
		require.Zero(t, x.executed())
		c.send(sessionOf(""))
		require.Equal(t, `<results><session cancel="disconnect"/></results>`, c.reply())
	})
}

// Amends count toward the rate of orders. Above the rate, only amends with a ref are passed on, as they may
// be repetitions.
func TestAmendsCountAsOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		s := start(t, p, x, Options{})
		s.SetRates(0, 2)
		c := connect(t, p)
		c.send(frame(`<transactions id="1"><amend id="1" amount="1"/><amend id="2" amount="1"/><amend id="3" amount="1"/>` +
			`<amend ref="r" amount="1"/><amend id="4" amount="1" newref="n"/><cancel-all/><cancel-after seconds="1"/>` +
			`</transactions>`))
		require.Equal(t, 2, strings.Count(c.reply(), "over its limit of 2 orders and creates per second"))
		var ids []int
		for i := range x.commands {
			ids = append(ids, int(x.commands[i].Order))
			require.Equal(t, x.commands[i].Order == 4, x.commands[i].Repeat, "command %d", i)
		}
		require.Equal(t, []int{1, 2, 4, 0, 0}, ids)
	})
}
