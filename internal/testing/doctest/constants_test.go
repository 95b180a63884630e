package doctest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConstantsAreReadFromSource(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"internal/a/a.go": "package a\n\nimport (\n\t\"net/http\"\n\t\"time\"\n\n\t\"any.example/x/internal/b\"\n)\n\n" +
			"const (\n\tfrom = iota + 1\n\tto\n\tbytesMax = 64 << 10\n\twait = 90 * time.Second\n\tlong = 2 * time.Minute\n" +
			"\ttwice = 2 * b.Most\n\tword = \"x\"\n)\n\nvar slow = 15 * time.Second\n\nvar later = http.Get\n",
		"internal/a/a_test.go": "package a\n\nconst inTest = 1\n",
		"internal/b/b.go":      "package b\n\n// Most is exported.\nconst Most = 8_192\n",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	c := NewConstants(root)
	for _, x := range []struct{ name, unit, text string }{
		{"to", "", "2"}, {"bytesMax", "KiB", "64 KiB"}, {"wait", "", "90 s"}, {"long", "min", "2 min"}, {"long", "", "120 s"},
		{"twice", "", "16,384"}, {"slow", "", "15 s"},
	} {
		text, err := c.Text("internal/a", x.name, x.unit)
		require.NoError(t, err, x.name)
		require.Equal(t, x.text, text)
	}
	for _, x := range [][2]string{{"word", ""}, {"later", ""}, {"inTest", ""}, {"none", ""}, {"bytesMax", "MiB"},
		{"bytesMax", "bytes"}} {
		_, err := c.Text("internal/a", x[0], x[1])
		require.Error(t, err, x)
	}
	_, err := c.Text("internal/none", "to", "")
	require.Error(t, err)
}
