package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAHeader(t *testing.T) {
	c, err := Parse("money/fractions", []byte("# why\ncase    money/fractions\r\nrule    4.2 # and 2\n"+
		"tell    Half a dollar # is money\n        too.\npoints  2.5\nrisk    3\ntime    0.5\nhidden  yes\nparts   1 2\n\n"+
		"> <create/>\n   <!--\n   # no part of it\n\t-->\n"))
	require.NoError(t, err)
	steps := c.Steps
	c.Steps = nil
	require.Equal(t, &Case{Name: "money/fractions", Group: "money", Rule: "4.2", Tell: "Half a dollar # is money too.",
		Points: 2.5, Risk: 3, Time: 500 * time.Millisecond, Hidden: true, Parts: []string{"1", "2"}}, c)
	require.Len(t, steps, 1)
	require.Equal(t, "<create/><!--# no part of it-->", steps[0].text)
}

// The headers have three lines, so the conversation begins on line 4.
func TestErrorsNameFileLineAndWord(t *testing.T) {
	header := "case create/x\nrule 3\ntell It is so.\n"
	for text, says := range map[string]string{
		"":                               `:1: the header has no case`,
		"case create/x\ntell It.\n> x\n": `:1: the header has no rule`,
		"case create/y\n":                `:1: case create/y is in the file of create/x`,
		"colour red\n":                   `:1: "colour" cannot begin a line: a header has case, rule, tell, points, `,
		"rule\n":                         `:1: rule has no value`,
		header:                           `:1: there is no conversation`,
		header + "rule 4\n> x\n":         `:4: rule is given twice`,
		header + "> x\npoints 2\n":       `:5: points belongs above the conversation`,
		header + "points many\n":         `:4: points "many" is not a number from 0 to 1000`,
		header + "points NaN\n":          `:4: points "NaN" is not`,
		header + "risk 10\n":             `:4: risk "10" is not a number from 0 to 9`,
		header + "time 0\n":              `:4: time "0" is not a number of seconds up to 120`,
		header + "hidden maybe\n":        `:4: hidden "maybe" is not yes or no`,
		header + "parts 1 A\n":           `:4: part "A" is not made of`,
		header + ">\n":                   `:4: there is no frame after >`,
		header + "0> x\n":                `:4: connection 0: must be a number from 1 to 64`,
		header + "> {b\n":                `:4: the brace of "{b" is not closed`,
		header + "> {n}\n":               `:4: there is no {n} here`,
		header + "> {k}\n":               `:4: there is no {k} here`,
		header + "> {part}\n":            `:4: there is no {part} here`,
		header + "> {Ab}\n":              `:4: there is no {Ab} here`,
		header + "> {frame <x/>}\n":      `:4: there is no {frame <x/>} here`,
		header + "> {repeat 0 x}\n":      `:4: {repeat 0: not a number from 1 to 100000`,
		header + "> {repeat 9999 {repeat 9999 x}}\n":               `:4: the repetitions have more than 4194304 bytes`,
		header + "> {repeat 99999 {repeat 99999 }}\n":              `:4: the repetitions have more than`,
		header + "> <query id=\"$1\"/>\n":                          `:4: $1 has no value: no line above expects it`,
		header + ">| \\q\n":                                        `:4: there is no escape \q`,
		header + "> x\n< <opened\n":                                `:5: the expected reply is not XML: XML syntax error`,
		header + "> x\n< <error>no</error>\n":                      `:5: texts are not compared, so "no" cannot be expected`,
		header + "> x\n< <opened id=\"$new\"/>\n":                  `:5: $new is only allowed in an answer after at-once`,
		header + "> x\n< <opened id=\"$\"/>\n":                     `:5: "$" is not $ and a name`,
		header + "> x\n< <status><open shares=\"$1\"/></status>\n": `:5: $1 gets its value within <open>`,
		header + "> x\n<| now\n":                                   `:5: nothing may follow <|, but now does`,
		header + "> x\n<2 <error/>\n":                              `:5: <2 <error/> counts replies, which only`,
		header + "| dance\n":                                       `:4: there is no | dance; there are shut, close,`,
		header + "? love b\n":                                      `:4: there is no ? love`,
		header + "| kill 9\n":                                      `:4: nothing may follow kill, but 9 does`,
		header + "| sleep 1h\n":                                    `:4: sleep needs a duration up to 5s`,
		header + "| at-once 2\n< <x/>\n":                           `:5: at-once must be followed by a line with >`,
		header + "| at-once 2\n":                                   `:4: at-once must be followed by a line with >`,
		header + "| at-once 9999\n> x\n":                           `:4: it needs a number from 1 to 256`,
		header + "| at-once 2\n> x\n<2 <y>\n":                      `:6: the expected reply is not XML`,
		header + "| together 2\n> x\n< *\n":                        `:4: together 2 is followed by 1 frames of its`,
		header + "> x\n| rising $1 $2\n":                           `:5: $1 has no value`,
		header + "> x\n| different 1\n":                            `:5: it needs at least two values`,
		header + "> \xff\n":                                        `:1: not UTF-8`,
		header + strings.Repeat("> x\n", 1001):                     `:1004: a case has at most 1000 lines`,
	} {
		_, err := Parse("create/x", []byte(text))
		require.ErrorContains(t, err, "create/x.case"+says, text[:min(len(text), 200)])
	}
	_, err := Parse("love/x", []byte("case love/x\n"))
	require.ErrorContains(t, err, `there is no group "love"; the groups are frames, create,`)
	_, err = Parse("create/X", []byte("case create/X\n"))
	require.ErrorContains(t, err, `"create/X" is not GROUP/NAME`)
}

func TestACaseOfFormHasNoConversation(t *testing.T) {
	_, err := Parse("form/sign", []byte("case form/sign\nrule 4.3\ntell Shares are positive.\n"))
	require.NoError(t, err)
}

// A case's path is its name: a new name adds a case, and an existing one replaces it.
func TestCasesOfAFolderAddAndReplace(t *testing.T) {
	dir := t.TempDir()
	write := func(name, more string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".case"), []byte("case "+name+"\nrule 3\ntell So.\n"+more+
			"> <create/>\n"), 0o600))
	}
	write("money/b", "points 7\n")
	write("create/z", "risk 2\n")
	write("durability/a", "")
	write("load/a", "")
	write("create/a", "risk 1\n")
	old := []*Case{{Name: "money/b", Group: "money"}, {Name: "frames/a", Group: "frames"}}
	all, err := Load(dir, old)
	require.NoError(t, err)
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"frames/a", "create/a", "create/z", "money/b", "durability/a", "load/a"}, names)
	require.Equal(t, 7.0, all[3].Points)
	require.Zero(t, old[0].Points)

	write("create/bad", "points x\n")
	_, err = Load(dir, old)
	require.ErrorContains(t, err, "create/bad.case:4: points")
	_, err = Load(t.TempDir(), nil)
	require.ErrorContains(t, err, "there is no GROUP/NAME.case")
	_, err = Load(filepath.Join(dir, "nowhere"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzParse checks that no case crashes the kit or uses unbounded memory, and that a parsed case can be played.
func FuzzParse(f *testing.F) {
	f.Add("case a\nrule 1\ntell x\n" + priority)
	f.Add("| at-once {part}\n> {repeat 9 {n}{k}}\n<* <x a=\"$new\"/>\n>| \\x00{cut {frame x}}\n? cash b 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("create/x", []byte("case create/x\nrule 3\ntell So.\n"+text))
		if err != nil {
			return
		}
		p := (&Player{Salt: "1"}).newPlay(c, partsOf(c)[0], true)
		p.vars = map[string]string{}
		for _, s := range c.Steps {
			if s.kind == want {
				_, _, err := p.wants(s.text, "")
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
