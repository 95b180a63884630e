//go:build browser && prometheus

package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
)

// TestARunbookOpensInABrowser follows each alert's link as a person would: Prometheus serves the page, and a real
// browser shows it from the runbook's heading on.
func TestARunbookOpensInABrowser(t *testing.T) {
	p := &prometheus{t: t, addr: freeAddress(t)}
	docs, err := filepath.Abs("../docs")
	require.NoError(t, err)
	cmd := exec.Command("prometheus", "--config.file=prometheus/prometheus.yml", "--storage.tsdb.path="+t.TempDir(),
		"--web.listen-address="+p.addr, "--web.external-url=http://"+p.addr, "--web.user-assets="+docs, "--log.level=warn")
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, harness.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus: %s", log.String())
		}
	})
	require.Eventually(t, p.isUp, patience, 50*time.Millisecond)

	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run sandboxed as root
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	opened := 0
	// read opens a page, waits until it is shown, and returns the value of an expression in it.
	read := func(page, expression string) (found string) {
		t.Helper()
		opened++ // makes the address new; with the same address the browser would not load the page again
		require.NoError(t, chromedp.Do(ctx,
			chromedp.Navigate(fmt.Sprintf("http://%s/user/read.html?nth=%d&page=%s", p.addr, opened, page))))
		found, err := chromedp.Run(ctx, chromedp.Poll[string](
			`document.querySelector("main").textContent !== "Reading…" && (`+expression+`)`,
			chromedp.WithPollingTimeout(patience)))
		require.NoError(t, err, page)
		return found
	}
	for _, name := range p.alerts() {
		require.Equal(t, name, read("OPERATIONS.md#"+strings.ToLower(name), `(() => {
			const title = document.querySelector("h3:target"), top = title?.getBoundingClientRect().top;
			return top >= -1 && top < innerHeight && title.textContent;
		})()`))
	}
	for page, to := range map[string]string{"README.md": "OPERATIONS.md",
		"decisions/README.md": "decisions/0002-own-journal.md"} {
		links := `[...document.querySelectorAll("a")].map(a => a.href)`
		require.Equal(t, "http://"+p.addr+"/user/read.html?page="+to,
			read(page, links+`.find(href => href.endsWith("`+filepath.Base(to)+`"))`))
	}
	for page, says := range map[string]string{"absent.md": "404", "../README.md": "no page",
		"https://example.org/x.md": "no page"} {
		require.Contains(t, read(page, `document.querySelector("main").textContent`), says)
	}
}

// alerts returns the names of all alerts in Prometheus' rules.
func (p *prometheus) alerts() (names []string) {
	p.t.Helper()
	r, err := http.Get("http://" + p.addr + "/api/v1/rules?type=alert")
	require.NoError(p.t, err)
	defer r.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct{ Rules []struct{ Name string } }
		}
	}
	require.NoError(p.t, json.NewDecoder(r.Body).Decode(&answer))
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Name)
		}
	}
	require.NotEmpty(p.t, names)
	return names
}
