package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"outcry/internal/operate/remote"
)

const (
	// serverTimeout bounds the time of a request to the HTTP side, and answerBytesMax the size of its
	// response.
	serverTimeout  = 5 * time.Second
	answerBytesMax = 16 << 20
)

// checkServers checks the running servers, one after the other.
func (e *examination) checkServers(ctx context.Context) {
	if e.HTTP == "" {
		return
	}
	all := strings.Split(e.HTTP, ",")
	for _, e.HTTP = range all {
		first := len(e.findings)
		e.checkServer(ctx)
		for i := first; len(all) > 1 && i < len(e.findings); i++ {
			e.findings[i].Check += " " + e.HTTP
		}
	}
}

// checkServer queries a running server: whether it is ready, and which commit it was built from.
func (e *examination) checkServer(ctx context.Context) {
	status, body, err := e.get(ctx, "/readyz")
	switch {
	case err != nil:
		e.found("server", Bad, "start outcryd, or correct --http", "%v", err)
		return
	case forbidden(status):
		e.found("server", Warn, "give a token that may read it, with --token-file", "the HTTP side asks for a token")
		return
	}
	line, _, _ := strings.Cut(body, "\n")
	well := status == http.StatusOK || strings.HasPrefix(line, remote.RoleStandby)
	e.found("server", gradeIf(!well, Bad), "the answer says why it accepts no orders",
		"/readyz says %d: %s", status, line)
	status, body, err = e.get(ctx, "/metrics")
	switch {
	case err != nil:
		e.unknown("server version", err)
		return
	case forbidden(status):
		e.found("server version", Warn, "give a token of the scope read", "/metrics answers %d: the token may not read it",
			status)
		return
	case status != http.StatusOK:
		e.unknown("server version", fmt.Errorf("/metrics answers %d", status))
		return
	}
	m := parseMetrics(body)
	revision := m.label("outcry_build_info", "revision")
	e.found("server version", gradeIf(e.Revision != "" && revision != "unknown" && revision != e.Revision, Warn),
		"install client and server of one version", "the server is built from %s, this program from %s", revision,
		orUnknown(e.Revision))
	if files := m.values["process_max_fds"]; files > 0 {
		need := float64(e.filesNeeded())
		e.found("server's open files", gradeIf(files < need, Warn),
			fmt.Sprintf("raise ulimit -n (LimitNOFILE= of its unit) to %.0f", need), "%.0f allowed, %.0f needed", files, need)
	}
	if room, there := m.values["outcry_journal_room"]; there {
		e.found("server's journal", gradeIf(room == 0, Bad), "make room on the disk of the data directory",
			"outcry_journal_room is %.0f", room)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown commit"
	}
	return s
}

// forbidden reports whether the HTTP side requires a token, or a token with other permissions.
func forbidden(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// get sends a request to the HTTP side. It uses no proxy and follows no redirect.
func (e *examination) get(ctx context.Context, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	scheme := "http://"
	if e.TLS != nil {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+e.HTTP+path, nil)
	if err != nil {
		return 0, "", err
	}
	if e.Token != "" {
		request.Header.Set("Authorization", "Bearer "+e.Token)
	}
	d := net.Dialer{Control: e.permit}
	client := http.Client{ // without the environment's proxy, which is meant for other traffic
		Transport:     &http.Transport{TLSClientConfig: e.TLS, DialContext: d.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	return response.StatusCode, string(b), err
}

// permit returns an error before an unencrypted connection is made that would reveal the token to another
// machine.
func (e *examination) permit(_, address string, _ syscall.RawConn) error {
	if e.Token == "" || e.TLS != nil {
		return nil
	}
	if !remote.OnThisMachine(address) {
		return fmt.Errorf("the token is not sent to %s without TLS: give --tls-ca", address)
	}
	return nil
}

// metrics is the content of /metrics as far as doctor uses it.
type metrics struct {
	values map[string]float64 // values of metrics without labels
	labels map[string]string  // lines of metrics with labels, unparsed, by metric
}

// parseMetrics parses the parts of the Prometheus text format that doctor needs.
func parseMetrics(text string) metrics {
	m := metrics{map[string]float64{}, map[string]string{}}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if family, labels, ok := strings.Cut(lines.Text(), "{"); ok {
			m.labels[family] = labels
		} else if v, err := strconv.ParseFloat(value, 64); err == nil {
			m.values[name] = v
		}
	}
	return m
}

// label returns the value of a label, "unknown" if the label is absent.
func (m metrics) label(name, label string) string {
	_, rest, ok := strings.Cut(m.labels[name], label+`="`)
	value, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		return "unknown"
	}
	return value
}
