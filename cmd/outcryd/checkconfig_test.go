package main

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/certtest"
)

// TestCheckConfigSaysOfCertificatesAndTokensWhatAStartWould breaks each file in turn, and requires that --check-config
// and a start report the same.
func TestCheckConfigSaysOfCertificatesAndTokensWhatAStartWould(t *testing.T) {
	authority := certtest.NewAuthority(t)
	own, other := authority.Server("own"), authority.Server("other")
	rubbish := writeFile(t, "rubbish", "rubbish")
	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "tokens"), []byte("rubbish"), 0o600))
	restoring := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(restoring, "RESTORING"), []byte("{}"), 0o600))
	pair := []string{"--tls-cert=" + own.CertFile, "--tls-key=" + own.KeyFile}
	for _, c := range []struct {
		flags []string
		wrong string
	}{
		{[]string{"--tls-cert=/nowhere/cert", "--tls-key=" + own.KeyFile},
			"--tls-cert: auth: certificate /nowhere/cert with key"},
		{[]string{"--tls-cert=" + own.CertFile, "--tls-key=" + other.KeyFile}, "private key does not match"},
		{append(pair, "--tls-client-ca="+rubbish), "there is no certificate in " + rubbish},
		{[]string{"--auth", "--data=" + damaged}, "--auth: auth: " + damaged},
		{[]string{"--data=" + restoring}, "a restore into " + restoring + " was begun and has not ended"},
	} {
		flags := append([]string{"--data=" + t.TempDir(), "--database-url=postgres://127.0.0.1:1/none?sslmode=disable",
			"--http="}, c.flags...)
		status, _, errs := checked(t, flags...)
		require.Equal(t, exitUsage, status, c.flags)
		require.Contains(t, errs, "outcryd: ")
		require.Contains(t, errs, c.wrong)
		_, _, err := tryInProcess(flags...)
		require.ErrorContains(t, err, c.wrong)
	}
}

func TestCheckConfigWarnsOfWhatAStartWarnsOf(t *testing.T) {
	authority, data := certtest.NewAuthority(t), t.TempDir()
	good, old := authority.Server("good"), authority.Expired("old", x509.ExtKeyUsageServerAuth)
	flags := []string{"--data=" + data, "--database-url=", "--auth", "--tls-client-ca=" + authority.File}
	status, _, errs := checked(t, append(flags, "--tls-cert="+old.CertFile, "--tls-key="+old.KeyFile)...)
	require.Equal(t, exitOK, status, errs)
	require.Contains(t, errs, "outcryd: warning: --tls-cert: auth: certificate "+old.CertFile+" has expired at ")
	require.Contains(t, errs, "outcryd: warning: there is no token yet")
	require.NotContains(t, errs, "open beyond")
	require.NoFileExists(t, filepath.Join(data, "tokens"))

	scope, err := auth.ParseScope("admin")
	require.NoError(t, err)
	_, _, err = auth.Add(data, scope, time.Time{}, "")
	require.NoError(t, err)
	status, _, errs = checked(t,
		append(flags, "--tls-cert="+good.CertFile, "--tls-key="+good.KeyFile, "--listen=:12345", "--http=0.0.0.0:8080")...)
	require.Equal(t, exitOK, status, errs)
	require.NotContains(t, errs, "expired")
	require.NotContains(t, errs, "no token yet")
	require.NotContains(t, errs, "open beyond", "it is encrypted, and asks for tokens")
	_, _, errs = checked(t, "--data="+data, "--database-url=", "--listen=:12345", "--http=localhost:8080", "--open")
	require.Equal(t, 2, strings.Count(errs, "the XML port is open beyond this machine"), errs)
	require.NotContains(t, errs, "the HTTP port")
}

func TestCheckConfigRefusesAMalformedDatabaseURL(t *testing.T) {
	for _, c := range []struct{ flag, wrong string }{
		{"--database-url=postgres://u:verysecret@h:port/d", "--database-url: postgres: cannot parse"},
		{"--database-url=postgres://u@h/d?passfile=/nowhere/pgpass", "/nowhere/pgpass"},
		{"--database-url=postgres://u@h/d?sslmode=verify-full&sslrootcert=/nowhere/ca", "/nowhere/ca"},
	} {
		status, out, errs := checked(t, "--data="+t.TempDir(), c.flag)
		require.Equal(t, exitUsage, status, c.flag)
		require.Contains(t, errs, c.wrong)
		require.NotContains(t, out+errs, "verysecret")
	}
}

func TestCheckConfigRefusesAJournalOfALaterVersion(t *testing.T) {
	data := t.TempDir()
	j, err := journal.Open(filepath.Join(data, "journal"), journal.Options{Version: exchange.EventVersion + 1})
	require.NoError(t, err)
	require.NoError(t, j.Close())
	status, _, errs := checked(t, "--data="+data, "--database-url=")
	require.Equal(t, exitUsage, status, errs)
	require.Contains(t, errs, "version")
}
