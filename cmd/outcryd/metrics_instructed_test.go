package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInstructionsAreCounted: each order is counted once for each of its instructions; refused orders are not counted.
func TestInstructionsAreCounted(t *testing.T) {
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	c.must(t, opening)
	c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/>`+
		`<order sym="S" amount="-1" limit="3" post="yes" cod="yes"/><amend id="1" limit="4"/>`+
		`<amend id="1" limit="4"/><cancel-after seconds="60"/></transactions>`)
	c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="3" post="yes"/>`+
		`<order sym="S" amount="1" type="market"/><order sym="S" amount="1" limit="2" tif="IOC"/>`+
		`<order sym="S" amount="9" limit="4" tif="FOK"/></transactions>`)
	page := scrape(t, p)
	for name, value := range map[string]string{
		`instructed_orders_total{kind="ioc"}`: "2", `instructed_orders_total{kind="fok"}`: "0",
		`instructed_orders_total{kind="post"}`: "1", `instructed_orders_total{kind="market"}`: "1",
		`instructed_orders_total{kind="cod"}`: "1", "amends_total": "1", "switches_armed": "1",
	} {
		require.Contains(t, page, "\noutcry_"+name+" "+value+"\n")
	}
}
