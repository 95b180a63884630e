package script

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
)

func root(t *testing.T, children string) []*dialect.Element {
	t.Helper()
	e, err := dialect.ParseDoc("<results>" + children + "</results>")
	require.NoError(t, err)
	return e.Children
}

// Attributes and children that WANT does not name are not compared, and neither are faults of form.
func TestOnlyWhatIsNamedIsCompared(t *testing.T) {
	for _, r := range []struct{ want, got, says string }{
		{`<opened/>`, `<opened id="1" sym="S" more="yes"/>`, ``},
		{`<error/>`, `<error id="4">no</error>`, ``},
		{`<any/>`, `<surprise/>`, ``},
		{`<opened id="*"/>`, `<opened id="7"/>`, ``},
		{`<opened id="*"/>`, `<opened/>`, `The answer must have the attribute id: it is <opened/>.`},
		{`<opened amount="1.50"/>`, `<opened amount="+1.5"/>`, ``},
		{`<opened amount="15"/>`, `<opened amount="$1.5e1"/>`, ``},
		{`<opened limit="1500"/>`, `<opened limit="1,500.00"/>`, ``},
		{`<opened amount="-5"/>`, `<opened amount="5"/>`, `The answer must have amount="-5": it is <opened amount="5"/>.`},
		{`<opened limit="5"/>`, `<opened limit="1e999999999"/>`,
			`The answer must have limit="5": it is <opened limit="1e999999999"/>.`},
		{`<created sym="1"/>`, `<created sym="01"/>`, `The answer must have sym="1": it is <created sym="01"/>.`},
		{`<status><open shares="5"/></status>`, `<status><open shares="-5"/></status>`, ``},
		{`<status/>`, `<status><open shares="9"/></status>`, ``},
		{`<status><executed shares="5"/><executed shares="3"/></status>`,
			`<status><executed shares="3" price="1"/><executed price="1" shares="5"/></status>`, ``},
		{`<status><executed shares="5"/></status>`, `<status><open shares="0"/><executed shares="5"/></status>`, ``},
		{`<status><executed/><executed shares="3"/></status>`,
			`<status><executed shares="3"/><executed shares="5"/></status>`, ``}, // the first fits both
		{`<status><executed shares="3"/><executed shares="3"/></status>`,
			`<status><executed shares="3"/><executed shares="5"/></status>`, `The answer must have in it ` +
				`<executed shares="3"/> and <executed shares="3"/>, and nothing else; ` +
				`it has <executed shares="3"/> and <executed shares="5"/>.`},
		{`<status><open shares="5"/></status>`, `<status><open shares="5"/><executed shares="1"/></status>`,
			`The answer must have in it <open shares="5"/>, and nothing else; ` +
				`it has <open shares="5"/> and <executed shares="1"/>.`},
		{`<status><open shares="5"/></status>`, `<status/>`,
			`The answer must have in it <open shares="5"/>, and nothing else; it has nothing.`},
		{`<opened/><opened/>`, `<opened/><opened/><error/><error/>`,
			`The reply must have 2 answers: 2 × <opened>. It has 4 answers: 2 × <opened>, 2 × <error>.`},
		{`<opened/><canceled/>`, `<opened/><status/>`, `Answer 2 of 2 must be <canceled>: it is <status/>.`},
		{`<opened id="$1"/><status id="$1"/>`, `<opened id="7"/><status id="07"/>`, ``},
		{`<opened id="$1"/><status id="$1"/>`, `<opened id="7"/><status id="8"/>`,
			`Answer 2 of 2 must have id="7": it is <status id="8"/>.`},
		{`<opened id="$old"/>`, `<opened id="x&quot;&lt;"/>`,
			`The answer must have id="5": it is <opened id="x&quot;&lt;"/>.`},
	} {
		m := &matcher{vars: map[string]string{"old": "5"}}
		err := m.answers(root(t, r.want), root(t, r.got), "")
		if r.says == "" {
			require.NoError(t, err, r.want)
			continue
		}
		require.EqualError(t, err, r.says)
		require.Equal(t, map[string]string{"old": "5"}, m.vars, "what does not match binds nothing")
	}
}

func TestAMessageNamesWhatWasAnswered(t *testing.T) {
	m := &matcher{vars: map[string]string{}}
	doc := `<create><account id="1" balance="5"/><symbol sym="A"><account id="1">7</account></symbol>` +
		`<symbol sym="B"/></create>`
	got := `<created/><error>no</error><error/>`
	require.EqualError(t, m.answers(root(t, `<created/><created/><created/>`), root(t, got), doc),
		`Answer 2 of 3, to 7 shares of A for account 1, must be <created>, but it was refused: <error>no</error>.`)
	require.EqualError(t, m.answers(root(t, `<any/><any/><created/>`), root(t, got), doc),
		`Answer 3 of 3, to <symbol sym="B"/>, must be <created>, but it was refused: <error/>.`)
	require.EqualError(t, m.answers(root(t, `<any/><created/><any/>`), root(t, got), "<not"),
		`Answer 2 of 3 must be <created>, but it was refused: <error>no</error>.`)
}

// A number that a server sends must not take long to parse.
func TestNumbersAreBounded(t *testing.T) {
	require.NotNil(t, number("$1,234.5e99"))
	require.Nil(t, number("1e100"))
	require.Nil(t, number(strings.Repeat("9", 100)))
}

// FuzzCompare checks that no answer of a server crashes the kit.
func FuzzCompare(f *testing.F) {
	f.Add(`<status><executed shares="1e9"/><executed shares="$0x1p-2"/></status>`)
	f.Fuzz(func(t *testing.T, got string) {
		e, err := dialect.ParseDoc("<results>" + got + "</results>")
		if err != nil {
			return
		}
		m := &matcher{vars: map[string]string{"1": "1"}, fresh: map[string]bool{}}
		if err := m.answers(e.Children, e.Children, got); err != nil && err.Error() == "" {
			t.Fatal("no message")
		}
	})
}
