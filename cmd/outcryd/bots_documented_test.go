//go:build bots

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBotsDoAsDocumented runs the ccxt example of docs/DOORS.md with only its address changed.
func TestBotsDoAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/DOORS.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)<!-- test: ccxt -->\n```python\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, found)
	code := string(found[1])
	require.Equal(t, 1, strings.Count(code, "127.0.0.1:8080"))
	require.LessOrEqual(t, strings.Count(strings.TrimSpace(code), "\n"), 15)
	flags, _ := dataFlags(t)
	p := start(t, flags...)
	c := dial(t, p.xml)
	require.NotContains(t, c.must(t, `<create><account id="1" balance="1000"/><account id="2" balance="0"/>`+
		`<symbol sym="SPY"><account id="2">10</account></symbol></create>`), "<error")
	sold := c.must(t, `<transactions id="2"><order sym="SPY" amount="-0.5" limit="99"/></transactions>`)
	require.NotContains(t, sold, "<error")
	cmd := exec.CommandContext(t.Context(), os.Getenv("OUTCRY_PYTHON"), "-B", "-c",
		strings.ReplaceAll(code, "127.0.0.1:8080", p.http)+"\nassert \".com\" not in str(exchange.urls[\"api\"])")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, p.log)
	require.Equal(t, "open 0.5\n[99.0, 1.5]\n[98.0]\n", string(out))
}
