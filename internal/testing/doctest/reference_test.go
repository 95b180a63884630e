package doctest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPageThatIsOutOfDateNamesTheCommand(t *testing.T) {
	page := filepath.Join(t.TempDir(), "PAGE.md")
	require.ErrorContains(t, Reference(page, "a\n", false), "run make reference", "there is no page")
	require.NoError(t, Reference(page, "a\nb\n", true))
	require.NoError(t, Reference(page, "a\nb\n", false))
	for _, text := range []string{"a\nc\n", "a\n", "a\nb\n\n"} {
		require.ErrorContains(t, Reference(page, text, false), "PAGE.md is out of date from line", "%q", text)
	}
}

func TestATableEscapesItsSeparator(t *testing.T) {
	require.Equal(t, "| a | b |\n| --- | --- |\n| x\\|y | z |\n", Table([][]string{{"a", "b"}, {"x|y", "z"}}))
}

func TestDigitsComeInThrees(t *testing.T) {
	for n, text := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -100: "-100"} {
		require.Equal(t, text, Thousands(n))
	}
}
