//go:build prometheus

package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
)

const (
	// patience is how long tests wait for an expected event. No result depends on its value.
	patience = 60 * time.Second
	// scrapeEvery is the scrape interval of the tests' Prometheus.
	scrapeEvery = 500 * time.Millisecond
)

func TestPromtoolTakesConfigurationAndRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yml"},
		{"check", "rules", "prometheus/recording.yml", "prometheus/alerts.yml"},
		{"test", "rules", "prometheus/rules_test.yml"},
	} {
		out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
		require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), out)
	}
}

// exchange is a server with a Postgres, to be scraped by Prometheus.
type exchange struct {
	server   *harness.Server
	postgres *harness.Postgres
	dir      string
}

func open(t *testing.T, flags ...string) *exchange {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	dir, err := os.MkdirTemp("", "outcry-deploy-") // its parent is open to all users, so also to Postgres' user
	require.NoError(t, err)
	x := &exchange{dir: dir}
	root, err := harness.Root(ctx)
	require.NoError(t, err)
	program, err := harness.Build(ctx, root, "./cmd/outcryd", x.dir)
	require.NoError(t, err)
	x.postgres, err = harness.StartPostgres(ctx, x.dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, x.postgres.Stop(context.Background()))
		require.NoError(t, harness.RemoveAll(x.dir))
	})
	x.server, err = harness.Launch(harness.ServerOptions{Program: program, Data: filepath.Join(x.dir, "data"),
		DatabaseURL: x.postgres.URL(), Flags: flags})
	require.NoError(t, err)
	t.Cleanup(x.server.Kill)
	require.NoError(t, x.server.WaitReady(ctx))
	return x
}

// prometheus is a running Prometheus server.
type prometheus struct {
	t        *testing.T
	addr     string
	from, to time.Time // times of the scrapes before and after a run
}

// cluster starts three nodes, which are stopped when the test ends, and returns their HTTP addresses.
func (x *exchange) cluster(t *testing.T) (addresses []string) {
	t.Helper()
	root, err := harness.Root(t.Context())
	require.NoError(t, err)
	program, err := harness.Build(t.Context(), root, "./cmd/outcry", x.dir) // next to outcryd
	require.NoError(t, err)
	base := 20_000 + rand.IntN(12_000)
	cmd := exec.Command(
		program,
		"cluster",
		"try",
		fmt.Sprintf("--base-port=%d", base),
		"--dir="+filepath.Join(x.dir, "cluster"),
	)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, harness.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the cluster: %s", log.String())
		}
	})
	for n := range 3 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", base+3*n+2))
	}
	return addresses
}

// scraped starts a Prometheus that scrapes the server.
func (x *exchange) scraped(t *testing.T, flags ...string) *prometheus {
	t.Helper()
	return x.scrape(t, []string{x.server.HTTP}, flags...)
}

// scrape starts a Prometheus with the rules and the configuration of this folder, except for the targets and how
// often they are scraped. It waits until one of the targets accepts orders.
func (x *exchange) scrape(t *testing.T, targets []string, flags ...string) *prometheus {
	t.Helper()
	dir, err := os.MkdirTemp(x.dir, "prometheus-")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, os.DirFS("prometheus")))
	config, err := os.ReadFile("prometheus/prometheus.yml")
	require.NoError(t, err)
	text := strings.NewReplacer(`"127.0.0.1:8080"`, `"`+strings.Join(targets, `","`)+`"`, ": 5s",
		fmt.Sprintf(": %s", scrapeEvery)).Replace(string(config))
	require.NotEqual(t, string(config), text)
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	p := &prometheus{t: t, addr: freeAddress(t)}
	cmd := exec.Command("prometheus",
		append([]string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + p.addr, "--log.level=warn"}, flags...)...)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, harness.Start(cmd), "the Debian package prometheus has it")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", log.String())
		}
	})
	require.Eventually(t, p.isUp, patience, 50*time.Millisecond)
	p.until(`outcry_ready == 1`)
	return p
}

// isUp reports whether Prometheus answers queries.
func (p *prometheus) isUp() bool {
	r, err := http.Get("http://" + p.addr + "/-/ready")
	if err != nil {
		return false
	}
	defer r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// until waits until an expression has a result.
func (p *prometheus) until(expr string) {
	p.t.Helper()
	for begun := time.Now(); len(p.query(expr, time.Now())) == 0; time.Sleep(scrapeEvery / 5) {
		require.Less(p.t, time.Since(begun), patience, "no answer to %s", expr)
	}
}

// freeAddress returns an address with a free port below the range that the kernel assigns. A port of that range could
// be assigned to a connection of another process before Prometheus listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
}

// get requests a path of Prometheus' API and decodes the data. If a query fails, it returns the error that the API
// reports.
func (p *prometheus) get(path string, data any) error {
	r, err := http.Get("http://" + p.addr + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Data  any
		Error string
	}{Data: data}
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("%s: %.200s: %w", r.Status, b, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}

// series is one series of a query's result. value is NaN if it is a histogram.
type series struct {
	labels    map[string]string
	value     float64
	histogram bool
}

// query evaluates an expression at a time. An expression that Prometheus refuses fails the test.
func (p *prometheus) query(expr string, at time.Time) (found []series) {
	p.t.Helper()
	var data struct {
		Result []struct {
			Metric    map[string]string
			Value     []any
			Histogram []any
		}
	}
	err := p.get("query?"+url.Values{"query": {expr},
		"time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}.Encode(), &data)
	require.NoError(p.t, err, expr)
	for _, r := range data.Result {
		s := series{labels: r.Metric, value: math.NaN(), histogram: r.Histogram != nil}
		if len(r.Value) == 2 {
			s.value, err = strconv.ParseFloat(r.Value[1].(string), 64)
			require.NoError(p.t, err)
		}
		found = append(found, s)
	}
	return found
}

// one returns the value of an expression that must have exactly one series.
func (p *prometheus) one(expr string, at time.Time) float64 {
	p.t.Helper()
	found := p.query(expr, at)
	require.Len(p.t, found, 1, expr)
	return found[0].value
}
