package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// riddles are phrases that are hard to understand, each with a replacement. They were common here once.
var riddles = map[string]string{
	"tells whether":      "reports whether",
	"that is none":       "malformed",
	"whoever":            "anyone who, or the caller",
	"but for":            "except",
	"as it stands":       "unchanged, or present",
	"amid":               "within, or during",
	"hangs on":           "depends on",
	"that are not empty": "with the subject: symbols with open orders",
	"comes out":          "the verb: matches, is computed",
	"may be told":        "durable, so visible; or may be sent",
	"for who":            "for callers that",
	"there comes":        "the subject first",
	"came to":            "the result: what it executed, its status",
	"anew":               "again",
}

// TestCommentsAndDocumentsSpeakPlainly looks for riddles in the comments of all Go files and in all documents.
func TestCommentsAndDocumentsSpeakPlainly(t *testing.T) {
	all := make([]string, 0, len(riddles))
	for phrase := range riddles {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(phrase), " ", `\s+(?://\s+)?`))
	}
	found := regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
	spaces := regexp.MustCompile(`\s+(//\s+)?`)
	files := 0
	check := func(path, text string) {
		for _, hit := range found.FindAllString(text, -1) {
			hit = strings.ToLower(spaces.ReplaceAllString(hit, " "))
			t.Errorf("%s: %q: write %s", path, hit, riddles[hit])
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" ||
			d.Name() == "vendor" || d.Name() == "build"):
			return fs.SkipDir
		case d.Name() == "words_test.go" || d.Name() == "CHANGELOG.md":
			return nil
		case strings.HasSuffix(path, ".md"):
			text, err := os.ReadFile(path)
			check(path, string(text))
			files++
			return err
		case strings.HasSuffix(path, ".go"):
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, group := range file.Comments {
				for _, c := range group.List {
					check(path, c.Text)
				}
			}
			files++
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 1000)
}
