package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTimesDoNotGoBackOverARestart: after a clean stop, only the database has the time of the newest record. Times
// must not go back if the clock was set back since.
func TestTimesDoNotGoBackOverARestart(t *testing.T) {
	t.Parallel()
	flags, database := dataFlags(t)
	p := start(t, flags...)
	require.Contains(t, dial(t, p.xml).must(t, `<create><account id="1" balance="10"/></create>`), "<created")
	p.stop(t)
	const ahead = "4070908800" // 1 January 2099
	require.Equal(t, [][]string{{"t"}}, query(t, text(t, database),
		`SELECT time_ns > 1700000000000000000 FROM exchange_state`), "of the account, whose row has no time")
	query(t, database, `UPDATE exchange_state SET time_ns = `+ahead+`000000007`)
	p = start(t, flags...)
	require.Contains(t, dial(t, p.xml).must(t, `<create><symbol sym="SPY"><account id="1">5</account></symbol></create>`),
		"<created")
	c := dial(t, p.xml)
	require.Contains(t, c.must(t, `<transactions id="1"><order sym="SPY" amount="-5" limit="2"/></transactions>`),
		"<opened")
	require.Contains(t, c.must(t, `<transactions id="1"><cancel id="1"/></transactions>`), `time="`+ahead+`"`)
	p.stop(t)
	require.Equal(t, [][]string{{ahead, ahead + "000000007"}}, query(t, text(t, database),
		`SELECT o.time, s.time_ns FROM orders o, exchange_state s`))
}
