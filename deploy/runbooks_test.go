// Package deploy_test compares the alerts and the dashboard with the pages that explain
// them. With the tag prometheus it also tests them in a real Prometheus that has scraped a
// server under load: every expression of the dashboard and the rules must have a result.
// That needs promtool and prometheus, of the Debian package prometheus:
//
//	go test -tags prometheus ./deploy
package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachAlertLinksToItsRunbook compares the anchors of links with the page's headings.
func TestEachAlertLinksToItsRunbook(t *testing.T) {
	alerts, err := os.ReadFile("prometheus/alerts.yml")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/OPERATIONS.md")
	require.NoError(t, err)
	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		headings[strings.ToLower(heading[1])] = true
	}
	names := regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(string(alerts), -1)
	links := regexp.MustCompile(`(?m)^          runbook_url: '.*#(\w+)'$`).FindAllStringSubmatch(string(alerts), -1)
	require.NotEmpty(t, names)
	require.Len(t, links, len(names))
	for i, name := range names {
		require.Equal(t, strings.ToLower(name[1]), links[i][1])
		require.True(t, headings[links[i][1]], "docs/OPERATIONS.md has no heading %s", name[1])
	}
}

// searched are the places of the pages that name a text of the log: a search of the journal, and "the log has `text`".
var searched = regexp.MustCompile(`journalctl [^|\n]*\| grep (?:-\w+ )?'([^']+)'|` +
	`\blog (?:has|says why:)\s+` + "`([^`]+)`")

// TestEachTextThatARunbookSearchesIsLogged compares the texts that the pages search the log for with the source.
func TestEachTextThatARunbookSearchesIsLogged(t *testing.T) {
	// By Go and systemd. A pattern with brackets stands for more than one text.
	foreign := regexp.MustCompile(`^(panic: |fatal error: |Main process exited)$|\[`)
	source := sourceOfPrograms(t)
	found := 0
	for _, name := range []string{"OPERATIONS.md", "DEPLOYMENT.md", "CLUSTER.md", "reference/PROCEDURES.md"} {
		page, err := os.ReadFile(filepath.Join("../docs", name))
		require.NoError(t, err)
		for _, place := range searched.FindAllStringSubmatch(string(page), -1) {
			for text := range strings.SplitSeq(place[1]+place[2], "|") {
				text = strings.Trim(strings.TrimPrefix(strings.TrimPrefix(text, "^"), `"msg":`), `"`)
				if !foreign.MatchString(text) {
					found++
					require.True(t, strings.Contains(source, text), "docs/%s: no program logs %q", name, text)
				}
			}
		}
	}
	require.Greater(t, found, 15)
}

// sourceOfPrograms returns the source of the programs, without tests and the lab.
func sourceOfPrograms(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"../cmd", "../internal"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path == "../internal/lab" || path == "../internal/testing" {
				return filepath.SkipDir
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				b, err := os.ReadFile(path)
				all.Write(b)
				return err
			}
			return nil
		}))
	}
	return all.String()
}
