package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// asAccount asks as an account.
func asAccount(id int, elements string) string {
	return fmt.Sprintf(`<transactions id="%d">%s</transactions>`, id, elements)
}

// TestAnAccountReadsWhatItHasWritten: in one frame, and on another connection at once; after a kill,
// with all fills in their numbers.
func TestAnAccountReadsWhatItHasWritten(t *testing.T) {
	flags := []string{"--data=" + t.TempDir(), "--database-url=" + pgtest.NewDatabase(t)}
	p := start(t, flags...)
	c, other := dial(t, p.xml), dial(t, p.xml)
	c.must(t, `<create><account id="1" balance="1000"/><account id="2" balance="1000"/>`+
		`<symbol sym="S"><account id="1">50</account></symbol><symbol sym="A"><account id="1">5</account></symbol></create>`)
	const held = `<account id="1" balance="980" held="20"><position sym="A" shares="5" held="0"/>` +
		`<position sym="S" shares="40" held="10"/></account>`
	require.Contains(t, c.must(t, asAccount(1, `<order sym="S" amount="-10" limit="3"/>`+
		`<order sym="A" amount="10" limit="2"/><account/>`)), held)
	for n := range 50 {
		id := 3 + n
		bought := other.must(t, asAccount(2, `<order sym="S" amount="0.1" limit="3"/>`))
		require.Contains(t, bought, fmt.Sprintf(`id="%d"`, id))
		require.Contains(t, c.must(t, asAccount(1, fmt.Sprintf(`<fills after="%d"/>`, n))),
			fmt.Sprintf(`<fills><fill n="%d" id="1" sym="S" side="sell" shares="0.1" price="3" time="`, n+1))
	}
	orders, fills := c.must(t, asAccount(1, `<orders/>`)), c.must(t, asAccount(2, `<fills/>`))
	require.Regexp(t, `^<results><orders><order id="1" sym="S" amount="-10" limit="3" open="5" time="\d+"/>`+
		`<order id="2" sym="A" amount="10" limit="2" open="10" time="\d+"/></orders></results>$`, orders)
	require.Contains(t, fills, `<fill n="50" id="52" sym="S" side="buy" shares="0.1" price="3"`)
	account := c.must(t, asAccount(2, `<account/>`))

	for _, end := range []func(){p.kill, func() { p.stop(t) }} {
		end()
		p = start(t, flags...)
		c = dial(t, p.xml)
		require.Equal(t, orders, c.must(t, asAccount(1, `<orders/>`)))
		require.Equal(t, account, c.must(t, asAccount(2, `<account/>`)))
		require.Equal(t, fills, c.must(t, asAccount(2, `<fills/>`)), "of the database, of the journal, or of both")
	}
	require.Contains(t, c.must(t, asAccount(2, `<order sym="S" amount="1" limit="3"/><fills after="50"/>`)),
		`<fills><fill n="51" id="`)
	require.Contains(t, c.must(t, asAccount(3, `<account/>`)), "there is no account 3")
}
