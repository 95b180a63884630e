//go:build prometheus

package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// expression is a query of the dashboard, with the title of its panel.
type expression struct{ title, expr string }

// dashboard returns the expressions of all panels. Their variables are replaced for a window that ends now.
func dashboard(t *testing.T, window time.Duration) (all []expression) {
	t.Helper()
	b, err := os.ReadFile("grafana/dashboards/outcry.json")
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(b, &d))
	variables := strings.NewReplacer("$__rate_interval", fmt.Sprintf("%dms", window.Milliseconds()), "$instance", ".*")
	for _, panel := range d.Panels {
		require.True(t, panel.Type == "row" || len(panel.Targets) > 0, panel.Title)
		for _, target := range panel.Targets {
			all = append(all, expression{panel.Title, variables.Replace(target.Expr)})
			require.NotContains(t, all[len(all)-1].expr, "$", "a variable that this test does not know")
		}
	}
	require.Greater(t, len(all), 50)
	return all
}

// panel returns the expression of the first panel with a title.
func panel(t *testing.T, title string, window time.Duration) string {
	t.Helper()
	for _, e := range dashboard(t, window) {
		if e.title == title {
			return e.expr
		}
	}
	require.Fail(t, "no such panel", title)
	return ""
}

// run is a load, and the Prometheus servers that scraped the exchange before and after it.
type run struct {
	result     *load.Result
	prometheus []*prometheus
}

// measured runs a market and waits for two scrapes by each Prometheus that exactly enclose the measured part: one
// after all commands before it were counted, and one after all its own were counted.
func (x *exchange) measured(t *testing.T, clients int, duration time.Duration, before func(), all ...*prometheus) *run {
	t.Helper()
	market, ok := scenario.Find("market")
	require.True(t, ok)
	load := &scenario.Run{Addrs: []string{x.server.XML}, Seed: uint64(time.Now().UnixNano()), Params: market.Defaults}
	load.Params.Clients, load.Params.Duration = clients, duration
	t.Logf("seed %d", load.Seed)
	require.NoError(t, market.Prepare(t.Context(), load))
	prepared := x.commands(t)
	for _, p := range all {
		p.from = p.scrapedUpTo(prepared)
	}
	before()
	r := &run{prometheus: all}
	var err error
	r.result, err = market.Measure(t.Context(), load)
	require.NoError(t, err)
	require.Zero(t, r.result.Errors, r.result.Examples)
	for _, p := range all {
		p.to = p.scrapedUpTo(prepared + r.result.Requests)
	}
	return r
}

// commands returns how many commands the server has counted.
func (x *exchange) commands(t *testing.T) (n uint64) {
	t.Helper()
	r, err := http.Get("http://" + x.server.HTTP + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)^outcry_commands_total\{.*\} (\S+)$`).FindAllSubmatch(page, -1) {
		v, err := strconv.ParseFloat(string(line[1]), 64)
		require.NoError(t, err)
		n += uint64(v)
	}
	return n
}

// scrapedUpTo waits until a scrape has seen exactly this many commands, and returns the time of the scrape.
func (p *prometheus) scrapedUpTo(commands uint64) time.Time {
	p.t.Helper()
	// The histogram counts a command last, after its reply was sent.
	count := "(sum by (instance) (outcry_request_seconds_count) or histogram_count(sum by (instance) " +
		"(outcry_request_seconds)))"
	seen := fmt.Sprintf("max(timestamp(outcry_ready) and on (instance) (%s == %d and sum by (instance) "+
		"(outcry_commands_total) == %[2]d))", count, commands)
	var found []series // of a single query, because the next scrape may fail
	require.Eventually(p.t, func() bool { found = p.query(seen, time.Now()); return len(found) > 0 }, patience,
		scrapeEvery/5, "no answer to %s", seen)
	return time.UnixMilli(int64(math.Round(found[0].value * 1000)))
}

// window returns the length of a window that ends at p.to and just includes p.from.
func (p *prometheus) window() time.Duration { return p.to.Sub(p.from) + time.Millisecond }

// TestEveryExpressionHasAnAnswer evaluates the expressions of the dashboard and the rules after a market has traded,
// for native and for classic histograms.
func TestEveryExpressionHasAnAnswer(t *testing.T) {
	x := open(t)
	cluster := x.scrape(t, x.cluster(t))
	cluster.until("sum(outcry_cluster_follows) == 3 and sum(outcry_cluster_spare_voters) == 1")
	for _, p := range x.measured(t, 16, 3*time.Second, func() {}, x.scraped(t),
		x.scraped(t, "--enable-feature=native-histograms")).prometheus {
		for _, e := range dashboard(t, p.window()) {
			switch {
			case strings.Contains(e.expr, "outcry_cluster_"):
				cluster.records(e.expr)
			case strings.Contains(e.expr, "instance:"):
				p.records(e.expr)
			default:
				require.True(t, hasValue(p.query(e.expr, p.to)), "%s: no answer to %s", e.title, e.expr)
			}
		}
		p.checkRules(cluster)
	}
}

// records waits until an expression over recorded series has a value. Prometheus records some time after the scrape
// that the series are based on.
func (p *prometheus) records(expr string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return hasValue(p.query(expr, time.Now())) }, patience, scrapeEvery/5,
		"nothing is recorded for %s", expr)
}

// hasValue reports whether any series in a result has a number or a histogram.
func hasValue(found []series) bool {
	for _, s := range found {
		if s.histogram || !math.IsNaN(s.value) {
			return true
		}
	}
	return false
}

// metricName matches the names of metrics, ours and others, and of recorded series.
var metricName = regexp.MustCompile(`\b(?:outcry|process|go)_[a-z0-9_]+|\binstance\w*:\w+:\w+|\bup\b`)

// checkRules requires that each rule is evaluated without an error, that each recorded series exists, and that each
// alert uses existing series, including those of a cluster.
func (p *prometheus) checkRules(cluster *prometheus) {
	t := p.t
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Name, Type, Query, Health, LastError string
				Annotations                          map[string]string
			}
		}
	}
	require.NoError(t, p.get("rules", &rules))
	tests, err := os.ReadFile("prometheus/rules_test.yml")
	require.NoError(t, err)
	alerts := 0
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
			if r.Type == "recording" {
				p.records(r.Name)
				continue
			}
			alerts++
			names := metricName.FindAllString(r.Query, -1)
			require.NotEmpty(t, names, r.Query)
			for _, name := range names {
				// A histogram exists in either its native or its classic form.
				either := fmt.Sprintf("count(%[1]s) or count(%[1]s_count)", strings.TrimSuffix(name, "_count"))
				if strings.HasPrefix(name, "outcry_cluster_") {
					cluster.until(either)
					continue
				}
				require.NotEmpty(t, p.query(either, p.to), "%s: there is no %s", r.Name, name)
			}
			require.Equal(t, "docs/OPERATIONS.md#"+strings.ToLower(r.Name), r.Annotations["runbook"])
			require.Equal(t, `{{ or $externalLabels.runbooks (print $externalURL "/user/read.html?page=OPERATIONS.md") }}#`+
				strings.ToLower(r.Name), r.Annotations["runbook_url"])
			require.NotEmpty(t, r.Annotations["summary"], r.Name)
			require.Contains(t, string(tests), "  - name: "+r.Name+"\n", "an alert without a test")
		}
	}
	require.Equal(t, 28, alerts)
}

// TestPercentilesAreThoseOfTheClients compares the dashboard's p50 and p99 with those that the load generator measured
// for the same requests, while every answer waits for a slow Postgres. Nearly all of that time, a few hundred
// milliseconds, is spent in the server, so the times of the clients and of the server are close.
func TestPercentilesAreThoseOfTheClients(t *testing.T) {
	x := open(t, "--ack=postgres")
	r := x.measured(t, 64, 6*time.Second, func() { x.postgres.Slow(5 * time.Millisecond) },
		x.scraped(t, "--enable-feature=native-histograms"), x.scraped(t))
	for _, c := range []struct {
		form  string
		p     *prometheus
		width float64 // a bucket's upper bound divided by its lower bound
	}{{"native", r.prometheus[0], math.Exp2(1.0 / 8)}, {"classic", r.prometheus[1], 2}} {
		for title, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
			got := c.p.one(panel(t, title, c.p.window()), c.p.to)
			// The ranks may differ by a few of a thousand requests, and the load generator rounds to a hundredth.
			low, high := r.result.Quantile(q-0.002).Seconds(), r.result.Quantile(q+0.002).Seconds()
			t.Logf("%s %s: %.4f s, clients %.4f s (%d requests)", c.form, title, got, r.result.Quantile(q).Seconds(),
				r.result.Requests)
			require.GreaterOrEqual(t, got*c.width*1.01, low, "%s %s", c.form, title)
			require.LessOrEqual(t, got/c.width/1.01, high, "%s %s", c.form, title)
		}
	}
}

// TestServerTimesAreAPartOfClientTimes compares the same percentiles with a fast Postgres. Clients also measure the
// network and their waits for a processor, so the server's times must not be longer.
func TestServerTimesAreAPartOfClientTimes(t *testing.T) {
	x := open(t)
	r := x.measured(t, 64, 3*time.Second, func() {}, x.scraped(t, "--enable-feature=native-histograms"))
	p := r.prometheus[0]
	for title, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		got := p.one(panel(t, title, p.window()), p.to)
		t.Logf("%s: %.6f s, clients %.6f s (%d requests)", title, got, r.result.Quantile(q).Seconds(), r.result.Requests)
		require.Positive(t, got)
		require.LessOrEqual(t, got/math.Exp2(1.0/8)/1.01, r.result.Quantile(q+0.002).Seconds(), title)
	}
}
