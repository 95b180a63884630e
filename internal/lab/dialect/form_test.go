package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachFaultOfFormOfAReplyIsSeen(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	at := func(seconds int64) string { return fmt.Sprintf(`time="%d"`, now.Unix()+seconds) }
	day := int64(24 * 60 * 60)
	one := at(0)
	for _, c := range []struct {
		reply string // may be without its root, which is then <results>
		want  []Form
	}{
		{`<status id="1"><open shares="1"/><executed shares="0.5" price="125.00" ` + one + `/></status>`, nil},
		{`<canceled id="1"><canceled shares="1" ` + at(-day) + `/>` +
			`<executed shares="1" price=".5" ` + at(day) + `/></canceled>`, nil},
		{`<error>no</error><created/><opened/>`, nil},
		{``, nil},
		{`<answer><error>no</error></answer>`, []Form{Root}},
		{`<result/>`, []Form{Root}},
		{`<error sym="A"/>`, []Form{ErrorText}},
		{"<error> \n </error><error/>", []Form{ErrorText}},
		{`<status><executed shares="1" price="$125.00" ` + one + `/></status>`, []Form{Number}},
		{`<status><executed shares="1e1" price="1,000" ` + one + `/></status>`, []Form{Number}},
		{`<status><open shares="NaN"/></status>`, []Form{Number}},
		{`<status><open shares=""/></status>`, []Form{Number}},
		{`<status><open shares="-5"/></status>`, []Form{Sign}},
		{`<canceled><canceled shares="-5" ` + one + `/></canceled>`, []Form{Sign}},
		{`<status><executed shares="-5" price="1" ` + one + `/></status>`, []Form{Sign}},
		{`<status><open shares="0"/></status>`, []Form{OpenZero}},
		{`<status><open shares="0.00"/></status>`, []Form{OpenZero}},
		{`<canceled><canceled shares="5"/></canceled>`, []Form{Time}},
		{`<status><executed shares="5" time="1700000000000"/></status>`, []Form{Time}},
		{`<status><executed shares="5" time="2023-11-14T22:13:20Z"/></status>`, []Form{Time}},
		{`<status><executed shares="5" ` + at(day+1) + `/></status>`, []Form{Time}},
		{`<status><executed shares="5" ` + at(-day-1) + `/></status>`, []Form{Time}},
		{`<status><executed ` + at(2) + `/><executed ` + at(1) + `/></status>`, []Form{ExecutionsOrder}},
		{`<status><executed ` + one + `/><executed ` + one + `/></status>`, nil},
		{`<status><executed ` + at(1) + `/><executed/><executed ` + one + `/></status>`, []Form{Time, ExecutionsOrder}},
		{`<status><executed ` + at(1) + `/><executed/><executed ` + at(1) + `/></status>`, []Form{Time}},
		{`<status><executed ` + at(1) + `/></status><status><executed ` + one + `/></status>`, nil},
	} {
		doc := "<results>" + c.reply + "</results>"
		if slices.Equal(c.want, []Form{Root}) {
			doc = c.reply
		}
		root, err := ParseDoc(doc)
		require.NoError(t, err, c.reply)
		found := inspect(root, Habits{}, now)
		require.Equal(t, c.want, forms(found), c.reply)
		for _, r := range found {
			require.NotEmpty(t, r.Detail, c.reply)
		}
	}
}

func TestWhatAReplyHasToRepeat(t *testing.T) {
	const order = `<transactions id="1"><order sym="A" amount="+1.0" limit="10"/></transactions>`
	const place = `<create><account id="1" balance="5"/><symbol sym="A"><account id="1">5</account>` +
		`<account id="2">5</account></symbol><symbol sym="B"/></create>`
	const asked = `<transactions id="1"><query id="007"/><cancel id="8"/></transactions>`
	for _, c := range []struct {
		sent, reply string
		want        []Form
	}{
		{order, `<opened sym="A" amount="+1.0" limit="10" id="5"/>`, nil},
		{order, `<opened sym="A" amount="+1.0" limit="10"/>`, nil}, // a value that the cases compare themselves
		{order, `<opened amount="+1.0" limit="10" id="5"/>`, []Form{Echo}},
		{order, `<opened sym="A" amount="1" limit="10" id="5"/>`, []Form{Echo}},
		{order, `<opened sym="A" amount="+1.0" limit="10.00" id="5"/>`, []Form{Echo}},
		{order, `<opened sym="a" id="5"/>`, []Form{Echo}},
		{`<transactions><order sym="` + strings.Repeat("A", 129) + `"/></transactions>`, `<error sym="AA…"/>`, nil},
		{`<transactions><order sym="` + strings.Repeat("A", 128) + `"/></transactions>`, `<error sym="AA…"/>`,
			[]Form{Echo}},
		{order, `<error sym="A" amount="+1.0" limit="10">no</error>`, nil},
		{order, `<error>no</error>`, []Form{Echo}},
		{order, `<error sym="A" amount="+1.0" limit="10" id="5">no</error>`, []Form{RefusedID}},
		{order, `<error id="5">no</error>`, []Form{Echo, RefusedID}},
		{order, `<error>the whole frame</error><error/>`, nil},
		{order, ``, nil},
		{place, `<created id="1"/><created sym="A" id="1"/><error sym="A" id="2">no</error><created sym="B"/>`, nil},
		{place, `<created id="1"/><created id="1"/><error sym="A" id="2">no</error><created sym="B"/>`, []Form{Echo}},
		{place, `<created id="1"/><created sym="A" id="1"/><error sym="A">no</error><created sym="B"/>`, []Form{Echo}},
		{place, `<created id="1"/><created sym="A" id="1"/><error sym="A" id="2">no</error><created/>`, []Form{Echo}},
		{asked, `<status id="007"><open shares="1"/></status><canceled id="8"/>`, nil},
		{asked, `<status id="7"><open shares="1"/></status><canceled id="8"/>`, []Form{Echo}},
		{asked, `<status id="007"/><error id="8">no</error>`, nil},
		{asked, `<status id="007"/><error>no</error>`, []Form{Echo}},
	} {
		sent, err := ParseDoc(c.sent)
		require.NoError(t, err)
		reply, err := ParseDoc("<results>" + c.reply + "</results>")
		require.NoError(t, err)
		require.Equal(t, c.want, forms(Judge(sent, reply)), c.reply)
	}
}
