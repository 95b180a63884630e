// Package deploy_test compares the alerts and the dashboard with the pages that explain
// them. With the tag prometheus it also tests them in a real Prometheus that has scraped a
// server under load: every expression of the dashboard and the rules must have a result.
// That needs promtool and prometheus, of the Debian package prometheus:
//
//	go test -tags prometheus ./deploy
package deploy_test

import (
	"os"
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
