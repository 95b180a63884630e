package main

import (
	"fmt"
	"regexp"
	"testing"

	"outcry/internal/testing/exchangetest"

	"github.com/stretchr/testify/require"
)

// asAccount wraps elements in a request of an account.
func asAccount(id int, elements string) string {
	return fmt.Sprintf(`<transactions id="%d">%s</transactions>`, id, elements)
}

// TestAnAccountReadsWhatItHasWritten: an account's queries see its own earlier commands in the same frame and on
// another connection at once, and after a kill they see all fills.
func TestAnAccountReadsWhatItHasWritten(t *testing.T) {
	flags := []string{"--data=" + t.TempDir(), "--database-url=" + exchangetest.NewTables(t)}
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

// TestOpenOrdersAreListedWithTheirInstructions: the list is correct after fills and amends, and after a restart from
// Postgres.
func TestOpenOrdersAreListedWithTheirInstructions(t *testing.T) {
	flags := []string{"--data=" + t.TempDir(), "--database-url=" + exchangetest.NewTables(t)}
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, `<create><account id="1" balance="1000"/><account id="2" balance="0"/>`+
		`<symbol sym="S"><account id="2">50</account></symbol></create>`)
	opened := c.must(t, asAccount(1, `<order sym="S" amount="10" limit="2" post="yes" stp="newest"/>`+
		`<order sym="S" amount="5" limit="1" cod="yes"/><order sym="S" amount="9" limit="1" tif="IOC"/>`))
	require.NotContains(t, opened, "error")
	require.NotContains(t, c.must(t, asAccount(2, `<order sym="S" amount="-4" type="market"/>`)), "error")
	list := func() string { return untimed(c.must(t, asAccount(1, `<orders sym="S"/>`))) }
	const second = `<order id="2" sym="S" amount="5" limit="1" cod="yes" open="5" time=""/>`
	const first = `<results><orders>` +
		`<order id="1" sym="S" amount="%d" limit="2" post="yes" stp="newest" open="%d" time=""/>` + second +
		`</orders></results>`
	require.Equal(t, fmt.Sprintf(first, 10, 6), list())
	require.NotContains(t, c.must(t, asAccount(1, `<amend id="1" amount="8"/>`)), "error")
	require.Equal(t, fmt.Sprintf(first, 8, 4), list())
	require.NotContains(t, c.must(t, asAccount(1, `<amend id="1" limit="1.5"/>`)), "error")
	third := `<order id="5" sym="S" amount="8" limit="1.5" post="yes" stp="newest" open="4" time=""/></orders></results>`
	require.Equal(t, `<results><orders>`+second+third, list())
	account := c.must(t, asAccount(1, `<account/>`))
	require.Contains(t, account, `balance="981" held="11"><position sym="S" shares="4" held="0"/>`)
	p.stop(t)
	p = start(t, flags...)
	c = dial(t, p.xml)
	require.Equal(t, `<results><orders>`+third, list(), "the other one is canceled, as its connection has ended")
	require.Contains(t, c.must(t, asAccount(1, `<account/>`)),
		`balance="986" held="6"><position sym="S" shares="4" held="0"/>`)
}

// untimed removes the timestamps from a reply.
func untimed(reply string) string { return times.ReplaceAllString(reply, ` time=""`) }

var times = regexp.MustCompile(` time="\d+"`)

// TestTradingGoesOnWithoutAView: without a view, account queries return errors, and everything else works.
func TestTradingGoesOnWithoutAView(t *testing.T) {
	raced(t)
	s, addr := inProcess(t, "--data="+t.TempDir(), "--database-url="+exchangetest.NewTables(t))
	c := dial(t, addr)
	c.must(t, `<create><account id="1" balance="1000"/><symbol sym="S"/></create>`)
	require.Contains(t, c.must(t, asAccount(1, `<account/>`)), `balance="1000"`)
	s.unfollow()
	require.Error(t, s.view.Await(background, s.journal.Appended()+1), "it has ended")
	reply := c.must(
		t,
		asAccount(1, `<order sym="S" amount="1" limit="1"/><account/><orders/><fills/><query id="1"/>`),
	)
	require.Regexp(t, `^<results><opened sym="S" amount="1" limit="1" id="1"/>`+
		`(<error[^>]*>the view of accounts does not answer now; trading continues</error>){3}`+
		`<status id="1"><open shares="1"/></status></results>$`, reply)
}

// TestANewLeaderHasTheViewOfItsAccounts: the new leader's view has what clients read or wrote before the change of
// leader, and what clients write afterwards.
func TestANewLeaderHasTheViewOfItsAccounts(t *testing.T) {
	t.Parallel()
	nodes, leader := startCluster(t)
	c := dial(t, leader.xml)
	c.must(t, `<create><account id="1" balance="1000"/><account id="2" balance="0"/>`+
		`<symbol sym="S"><account id="2">50</account></symbol></create>`)
	const asked = `<account/><orders/><fills/>`
	c.must(t, asAccount(1, `<order sym="S" amount="10" limit="2" post="yes"/>`))
	c.must(t, asAccount(2, `<order sym="S" amount="-4" type="market"/>`))
	replied := c.must(t, asAccount(1, asked))
	require.Contains(t, replied, `<fills><fill n="1" id="1" sym="S" side="buy" shares="4" price="2"`)
	require.Contains(t, replied, `<order id="1" sym="S" amount="10" limit="2" post="yes" open="6"`)
	leader.crash()
	next := leaderOf(t, others(nodes, leader)...)
	c = dial(t, next.xml)
	require.Equal(t, replied, c.must(t, asAccount(1, asked)))
	require.Contains(t, c.must(t, asAccount(2, `<order sym="S" amount="-6" limit="2"/><fills after="1"/>`)),
		`<fills><fill n="2" `)
	require.Contains(t, c.must(t, asAccount(1, `<fills after="1"/><orders/>`)), `shares="6" price="2"`)
}
