package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// wordsMax is the largest number of words, as counted by wc -w, of README, docs, decisions and the hand-written
// pages of docs/reference together. 30,000 must be enough once all planned features have their pages; until then, a
// new page requires cuts elsewhere.
const wordsMax = 30_000

// madePage matches the first words of a generated page.
var madePage = regexp.MustCompile("[Mm]ade by\\s`|Generated from the tables")

// TestTheDocumentsAreShort counts the words that somebody wrote; pages made by make reference do
// not count.
func TestTheDocumentsAreShort(t *testing.T) {
	words, pages := 0, 0
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md", "docs/reference/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, page := range found {
			b, err := os.ReadFile(page)
			require.NoError(t, err)
			if strings.Contains(pattern, "reference") && madePage.Match(b) {
				continue
			}
			words += len(strings.Fields(string(b)))
			pages++
		}
	}
	t.Logf("%d words on %d pages", words, pages)
	require.Greater(t, pages, 40)
	require.LessOrEqual(t, words, wordsMax, "cut as many words elsewhere as you add")
}

// TestEveryLinkOfADocumentLeadsSomewhere follows each relative link of each page of the repository
// to its file, and to the heading that its anchor names.
func TestEveryLinkOfADocumentLeadsSomewhere(t *testing.T) {
	links, anchors := 0, map[string]map[string]bool{}
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	for _, page := range documents(t) {
		text := withoutCode(t, page)
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") { // elsewhere
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target))
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "%s links to %s", page, match[1])
			if anchor == "" {
				continue
			}
			if anchors[file] == nil {
				anchors[file] = headings(withoutCode(t, file))
			}
			require.True(t, anchors[file][anchor], "%s links to %s, which has no such heading", page, match[1])
		}
	}
	require.Greater(t, links, 200)
}

// documents returns the pages of Markdown below the root.
func documents(t *testing.T) []string {
	var pages []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build" || strings.HasSuffix(d.Name(), "-data")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return nil
	}))
	require.Greater(t, len(pages), 50)
	return pages
}

// withoutCode returns the text of a page without its fenced blocks.
func withoutCode(t *testing.T, page string) string {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	var kept []string
	fenced := false
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// headings returns the anchors that GitHub makes for the headings of a text.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ +(.+?) *$`).FindAllStringSubmatch(text, -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		base := anchor
		for n := 1; anchors[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", base, n)
		}
		anchors[anchor] = true
	}
	return anchors
}
