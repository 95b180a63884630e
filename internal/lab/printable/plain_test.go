package printable

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextKeepsWhatCanBeShown(t *testing.T) {
	for from, to := range map[string]string{
		"<a b=\"1\">\n\tGrüße, 世界</a>":       "<a b=\"1\">\n\tGrüße, 世界</a>",
		"\x1b[2Jx\x00\r\x7f":                 "\uFFFD[2Jx\uFFFD\uFFFD\uFFFD",
		"a\xffb":                             "a\uFFFDb",
		"abc\u202etxt.exe\u2066\u200b\ufeff": "abc\uFFFDtxt.exe\uFFFD\uFFFD\uFFFD",
		"":                                   "",
	} {
		require.Equal(t, to, Text(from))
	}
}

func TestACellIsNoFormula(t *testing.T) {
	for from, to := range map[string]string{
		"=1+1":                "'=1+1",
		"+1":                  "'+1",
		"-1":                  "'-1",
		"@SUM(A1)":            "'@SUM(A1)",
		"\t=1":                "'=1",
		"\r\n\n =1":           "'=1",
		"'=1":                 "''=1",
		"|calc":               "'|calc",
		"81.25":               "81.25",
		"two\nlines,\"here\"": `two lines,"here"`,
		"":                    "",
	} {
		require.Equal(t, to, Cell(from))
	}
}
