package script

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference; make reference does it for all packages")

// example is the case shown on the page.
const example = `case    matching/partial-keeps-priority
rule    transactions, Matching
tell    An order that executed in part keeps its place in time.
points  2
>  <create><account id="{b}" balance="100000"/><account id="{s}" balance="1"/>
   <symbol sym="{S}"><account id="{s}">100</account></symbol></create>
<  <created/><created/><created/>
>  <transactions id="{s}"><order sym="{S}" amount="-10" limit="10"/>
   <order sym="{S}" amount="-10" limit="10"/></transactions>
<  <opened id="$1"/><opened id="$2"/>
>  <transactions id="{b}"><order sym="{S}" amount="4" limit="10"/>
   <order sym="{S}" amount="4" limit="10"/></transactions>
<  <opened/><opened/>
>  <transactions id="{b}"><query id="$1"/></transactions>
<  <status><open shares="2"/><executed shares="4"/><executed shares="4"/></status>
`

func TestTheExampleOfThePageHolds(t *testing.T) {
	c, err := Parse("matching/partial-keeps-priority", []byte(example))
	require.NoError(t, err)
	require.Equal(t, Pass, twin(t, nil).Play(t.Context(), c).Status)
}

// The test generates docs/reference/CASES.md from the example and the tables of headers and verbs.
func TestReferenceOfCases(t *testing.T) {
	rows := [][]string{{"header", "value", "what it is"}}
	for _, h := range headers {
		rows = append(rows, []string{"`" + h.name + "`", "`" + h.value + "`", h.tells})
	}
	lines := [][]string{
		{"line", "what it does"},
		{"`> DOC`, `2> DOC`", "sends a document as a frame, as the server wants frames, on connection 1, or on 2"},
		{"`>| BYTES`", "sends bytes, with `\\n` `\\r` `\\t` `\\0` `\\\\` `\\xFF`, and `{frame DOC}`: the frame of a " +
			"document; `{crlf DOC}`: with a carriage return after its length; `{cut DOC}`: one that ends in the middle"},
		{"`< WANT`, `2< WANT`", "the next reply has these answers, the children of its root; `*`: any reply; nothing: " +
			"`<results/>`"},
		{"`<|`", "the server must close the connection; one reply of errors may come before that"},
	}
	for _, v := range verbs {
		sign := "| "
		if strings.HasPrefix(v.name, "?") {
			sign = ""
		}
		lines = append(lines, []string{"`" + strings.TrimSpace(sign+v.name+" "+v.args) + "`", v.tells})
	}
	page := `# Cases

Made by ´make reference´. ´outcry-lab grade´ plays the cases in ´internal/lab/grade/script/cases´, and those of
´--cases DIR´: files GROUP/NAME.case, a header and a conversation. Your own replaces one of the same name.

    ` + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ") + `

A line that begins with ´#´ is a comment. A line that begins with a blank goes on with the one above it. The groups
are ` + groupNames() + `.

` + doctest.Table(rows) + `
A case fails at its first line that does not hold.

` + doctest.Table(lines) + `
- **What is compared.** Answers agree in number, order and tag. Attributes that WANT names are equal, as numbers if
  both are, and shares without their sign. ´"*"´ is any value, ´<any/>´ any answer. What WANT does not name is free:
  attributes, texts, children. If WANT names children of an answer, they are the same set, in any order.
- **Names.** ´{b}´, small letters: an account of this playing alone. ´{S}´, capitals: a symbol.
  ´{repeat 1000 TEXT}´: TEXT so many times, in which ´{k}´ is 1 to 1000.
- **Values.** ´$1´, ´$old´: WANT keeps the value when it first sees it, and then wants the same; DOC has it. A dollar
  that is only a dollar is ´&#36;´.
- **Races.** A case of the group concurrency is first played one after another. If it is wrong there it is skipped,
  since another case says so. Then it is played at once; if that fails, three times in all.
`
	page = strings.ReplaceAll(page, "´", "`")
	require.NoError(t, doctest.Reference("../../../../docs/reference/CASES.md", page, *update))
}
