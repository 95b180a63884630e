//go:build operations

package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// protectedSections are the sections of the page that only apply to an exchange with tokens.
var protectedSections = []string{"Shut a customer out"}

// Settings of an exchange with tokens and TLS, and commands that make the files for them.
const (
	// certificates makes a certificate authority, and certificates for the server and for clients.
	certificates = `set -e; cd /etc/outcry; ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $ec -days 30 -subj '/CN=authority' -keyout ca.key -out ca.pem
for name in server operator prometheus; do
  openssl req $ec -subj /CN=$name -keyout $name.key -out $name.csr
  printf 'subjectAltName=IP:127.0.0.1\n' > $name.ext
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile $name.ext -out $name.pem
done
chgrp outcry server.key operator.key; chmod 640 server.key operator.key; rm ca.key`

	// protection is the content of the settings file.
	protection = "auth = true\ntls-cert = /etc/outcry/server.pem\ntls-key = /etc/outcry/server.key\ntls-client-ca = " +
		"/etc/outcry/ca.pem\n"

	// scraping is the additional part of Prometheus's configuration.
	scraping = `  - job_name: outcry
    scheme: https
    authorization: {credentials_file: /etc/outcry/prometheus.token}
    tls_config: {ca_file: /etc/outcry/ca.pem, cert_file: /etc/outcry/prometheus.pem, ` +
		`key_file: /etc/outcry/prometheus.key}
`
	// clientEnvironment is a client's environment, up to the path of its token file.
	clientEnvironment = "OUTCRY_TLS_CA=/etc/outcry/ca.pem OUTCRY_CLIENT_CERT=/etc/outcry/operator.pem " +
		"OUTCRY_CLIENT_KEY=/etc/outcry/operator.key OUTCRY_TOKEN_FILE="

	// runaway opens an account whose owner, with his own token, places orders until one is refused.
	runaway = "outcry account 4 1000000 && outcry token add --data /var/lib/outcry --scope account:4 > " +
		"/root/runaway.token && " +
		"systemd-run --quiet --collect --unit=runaway env " + clientEnvironment + "/root/runaway.token " +
		"bash -c 'until outcry buy 4 SPY 1 0.01; do sleep 0.1; done; while outcry buy 4 SPY 1 0.01; do echo one; done | " +
		"tee /root/runaway.log'"
)

// TestThePageWithTokensAndTLS performs parts of the page, unchanged, on a station whose exchange requires a token and
// a client certificate over TLS.
func TestThePageWithTokensAndTLS(t *testing.T) {
	t.Parallel()
	s := openStation(t)
	s.inShell(t, ". /usr/share/outcry/operator.sh && outcry status") // harmless without tokens and certificates
	s.run(certificates)
	out, err := s.machine.shell("cat >> "+settings+" && systemctl restart outcryd", protection)
	require.NoError(t, err, out)
	page := pageOf(t, "First look")
	look, err := page.Section("First look")
	require.NoError(t, err)
	require.ErrorContains(t, s.openShell(patience).Walk(t.Context(), page, look, nil), "HTTP request to an HTTPS server")

	s.walk(t, "With tokens and TLS", nil)
	s.run("outcry token add --data /var/lib/outcry --scope read > /etc/outcry/prometheus.token")
	s.startPrometheus(t, func(text string) string {
		return hasten(t, strings.Replace(text, "  - job_name: outcry\n", scraping, 1))
	})
	s.startCustomers(t, clientEnvironment+"/etc/outcry/operator.token")
	s.inShell(t, "outcry account 1 1000")
	for _, part := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"First look", func(t *testing.T) { s.walk(t, "First look", nil) }},
		{"Halt a symbol", func(t *testing.T) { s.walk(t, "Halt a symbol", nil) }},
		{"OutcryNotReady", func(t *testing.T) { s.has(t, troubleOf("OutcryNotReady")) }},
		{"OutcryPostgresDown", func(t *testing.T) { s.has(t, troubleOf("OutcryPostgresDown")) }},
		{"Shut a customer out", s.shutsOut},
	} {
		if !t.Run(part.name, func(t *testing.T) { s.t = t; part.do(t) }) {
			return // the next part needs a healthy station
		}
	}
}

// troubleOf returns the trouble that causes an alert.
func troubleOf(alert string) trouble {
	all := allTroubles()
	return all[slices.IndexFunc(all, func(trouble trouble) bool { return trouble.alert == alert })]
}

// shutsOut performs the runbook for shutting out a customer, on one that keeps placing orders.
func (s *station) shutsOut(t *testing.T) {
	s.walk(t, "Shut a customer out",
		map[string]func() error{"a customer has lost control, and does not stop": func() error {
			s.inShell(t, runaway)
			for begun := time.Now(); len(s.try("cat /root/runaway.log 2>/dev/null")) <= 5; time.Sleep(50 * time.Millisecond) {
				require.Less(t, time.Since(begun), patience, s.try("journalctl --no-pager --unit=runaway"))
			}
			return nil
		}})
	require.Eventually(t, func() bool { return s.try("systemctl is-active runaway") == "inactive" }, patience,
		50*time.Millisecond, "its token is not good any more")
}

// inShell runs a command that must succeed in the shell in which the page is performed.
func (s *station) inShell(t *testing.T, command string) {
	t.Helper()
	printed, status, err := s.shell.Run(command)
	require.NoError(t, err, printed)
	require.Zero(t, status, fmt.Sprintf("%s: %s", command, printed))
}
