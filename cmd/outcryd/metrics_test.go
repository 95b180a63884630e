package main

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

// trafficOfAllKinds sends commands of every kind, both accepted and refused, and malformed text.
func trafficOfAllKinds(t *testing.T, c *conn) {
	t.Helper()
	c.must(t, opening)
	c.must(t, opening) // refused: everything exists already
	c.must(t, `<transactions id="2"><order sym="S" amount="-3" limit="3"/><order sym="NONE" amount="1" limit="1"/>`+
		`<order sym="S" amount="x" limit="1"/></transactions>`)
	c.must(t, `<transactions id="1"><order sym="S" amount="2" limit="3"/><query id="1"/><query id="99"/>`+
		`<cancel id="1"/><cancel id="2"/></transactions>`)
	c.must(t, `<transactions id="2"><cancel id="1"/><cancel id="1"/></transactions>`)
	c.must(t, "no XML")
}

// scrape returns /metrics as text.
func scrape(t *testing.T, p *program) string {
	t.Helper()
	response := get(t, p, "/metrics")
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(b)
}

// metricsWith returns the page of metrics that a token shows, or an error as text.
func metricsWith(p *program, token string) string {
	r, err := http.NewRequest(http.MethodGet, "http://"+p.http+"/metrics", nil)
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// metric returns the current value of a metric that has no labels.
func metric(t *testing.T, p *program, name string) float64 {
	t.Helper()
	_, after, ok := strings.Cut(scrape(t, p), "\n"+name+" ")
	require.True(t, ok, name)
	text, _, _ := strings.Cut(after, "\n")
	value, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return value
}

// families returns the number of series of each metric in a page.
func families(page string) map[string]int {
	found, name := map[string]int{}, ""
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ = strings.Cut(rest, " ")
			found[name] = 0
		} else if !strings.HasPrefix(line, "#") {
			found[name]++
		}
	}
	return found
}

// TestMetricsKeepTheConventions lints the metrics of a real server after real traffic, and requires that clients cannot
// add label values.
func TestMetricsKeepTheConventions(t *testing.T) {
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	before := families(scrape(t, p))
	trafficOfAllKinds(t, dial(t, p.xml))
	page := scrape(t, p)
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	require.NoError(t, err)
	for _, problem := range problems {
		// The names of Go runtime metrics are chosen by client_golang.
		require.True(t, strings.HasPrefix(problem.Metric, "go_"), "%s: %s", problem.Metric, problem.Text)
	}
	after := families(page)
	require.Equal(t, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)), "all are there from the start")
	for name, series := range after {
		require.Equal(t, before[name], series, "%s: traffic adds no series", name)
		require.Less(t, series, 800, name) // a histogram's series, for each kind of command and both outcomes
	}
	allowed := map[string]bool{"kind": true, "outcome": true, "stage": true, "limit": true, "part": true, "le": true,
		"quantile": true,
		"revision": true, "modified": true, "goversion": true, "version": true, "path": true, "checksum": true}
	for _, label := range regexp.MustCompile(`[{,](\w+)="`).FindAllStringSubmatch(page, -1) {
		require.True(t, allowed[label[1]], label[0])
	}
	for name, value := range map[string]string{
		"outcry_orders_total": "2", "outcry_executions_total": "1", "outcry_cancels_total": "1",
		"outcry_traded_shares_total": "2", "outcry_traded_dollars_total": "6", "outcry_ready": "1",
		"outcry_open_orders": "0", "outcry_postgres_up": "1", "outcry_journal_room": "1",
		`outcry_request_seconds_count{kind="order",outcome="ok"}`:       "2",
		`outcry_request_seconds_count{kind="order",outcome="rejected"}`: "1",
		`outcry_request_seconds_count{kind="query",outcome="rejected"}`: "1",
		`outcry_request_seconds_count{kind="cancel",outcome="ok"}`:      "1",
	} {
		require.Contains(t, page, "\n"+name+" "+value+"\n")
	}
}
