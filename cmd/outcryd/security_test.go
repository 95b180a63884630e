package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/admin"
	"outcry/internal/door/xml/wire"
	"outcry/internal/operate/settings"
	"outcry/internal/testing/certtest"
)

// protected is a server with tokens and TLS that requires client certificates.
type protected struct {
	*server
	xml       string
	flags     []string
	data      string
	authority *certtest.Authority
	client    *tls.Config
}

func startProtected(t *testing.T) *protected {
	t.Helper()
	common, _ := dataFlags(t)
	p := &protected{authority: certtest.NewAuthority(t), data: strings.TrimPrefix(common[0], "--data=")}
	own := p.authority.Server("server")
	p.flags = append(common, "--auth", "--tls-cert="+own.CertFile, "--tls-key="+own.KeyFile,
		"--tls-client-ca="+p.authority.File)
	p.server, p.xml = inProcess(t, p.flags...)
	p.client = &tls.Config{RootCAs: p.authority.Pool,
		Certificates: []tls.Certificate{p.authority.Client("alice").Certificate}}
	return p
}

// reloadFiles reloads certificates and tokens, as a reload does.
func (p *protected) reloadFiles() error {
	apply, err := p.reloadSecurity(p.config)
	if err == nil {
		apply()
	}
	return err
}

// token adds a token of a scope, reloads the server's tokens, and returns the token and its id.
func (p *protected) token(t *testing.T, scope string, expires time.Time) (token, id string) {
	t.Helper()
	s, err := auth.ParseScope(scope)
	require.NoError(t, err)
	token, e, err := auth.Add(p.data, s, expires, "")
	require.NoError(t, err)
	require.NoError(t, p.reloadFiles())
	return token, e.ID
}

// dial connects with a valid certificate and presents a token, unless it is "".
func (p *protected) dial(t *testing.T, token string) *conn {
	t.Helper()
	c, err := tls.Dial("tcp", p.xml, p.client)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	dialed := &conn{c, wire.NewFrameReader(c, 64<<20)}
	if token != "" {
		require.Equal(t, "<results><authorized/></results>", dialed.must(t, string(wire.AppendAuth(nil, token))))
	}
	return dialed
}

// do sends a request. It offers HTTP/2, which the server does not support.
func (p *protected) do(
	ctx context.Context, config *tls.Config, method, path, token, body string,
) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+p.httpAddr.String()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return (&http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
		DisableKeepAlives: true}}).Do(r)
}

// badTokens returns tokens that must not be accepted for account 1, keyed by what is wrong with them.
func (p *protected) badTokens(t *testing.T) map[string]string {
	t.Helper()
	right, _ := p.token(t, "account:1", time.Time{})
	revoked, id := p.token(t, "admin", time.Time{})
	require.NoError(t, auth.Revoke(p.data, id))
	expired, _ := p.token(t, "admin", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	path := filepath.Join(p.data, "tokens")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(file), "2100-", "2001-", 1)), 0o600))
	require.NoError(t, p.reloadFiles())
	return map[string]string{"none": "", "malformed": "outc_1_2", "wrong": right[:len(right)-8] + "00000000",
		"revoked": revoked, "expired": expired}
}

// TestNothingIsToldWithoutAToken sends bad tokens over TCP and to each route of the HTTP side.
func TestNothingIsToldWithoutAToken(t *testing.T) {
	p := startProtected(t)
	bad := p.badTokens(t)
	ask := `<transactions id="1"><query id="1"/></transactions>`
	for name, token := range bad {
		c, frame := p.dial(t, ""), ask
		if token != "" {
			frame = string(wire.AppendAuth(nil, token))
		}
		reply, err := c.ask(frame)
		require.NoError(t, err, name)
		require.Contains(t, reply, "<results><error>this exchange takes &lt;auth token=", name)
		_, err = c.r.Next()
		require.ErrorIs(t, err, io.EOF, name)
	}
	delete(bad, "malformed") // with it, the failures would reach the rate limit for bad tokens
	delete(bad, "expired")
	routes := append(admin.Patterns(admin.Options{Market: http.NotFoundHandler()}), "GET /none", "GET /api/v1/stream",
		"GET /api/v1/symbols",
		"GET /api/v1/orders/1", "GET /page/app.js", "POST /admin/halt", "GET /admin/status")
	for i, pattern := range routes {
		method, path, _ := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
		for name, token := range bad {
			if name != "none" && i > 1 {
				continue // the same guard runs before every route
			}
			response, err := p.do(t.Context(), p.client, method, path, token, ask)
			require.NoError(t, err)
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			require.Equal(t, http.StatusUnauthorized, response.StatusCode, "%s %s: %s", pattern, name, body)
			require.Equal(t, 1, response.ProtoMajor)
		}
	}
}

func TestNothingIsToldWithoutTLS(t *testing.T) {
	p := startProtected(t)
	token, _ := p.token(t, "admin", time.Time{})
	for _, addr := range []string{p.xml, p.httpAddr.String()} {
		for _, text := range []string{
			string(wire.AppendFrame(nil, wire.AppendAuth(nil, token))),
			"GET /metrics HTTP/1.0\r\nAuthorization: Bearer " + token + "\r\n\r\n",
		} {
			c, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			_, err = io.WriteString(c, text)
			require.NoError(t, err)
			got, _ := io.ReadAll(c)
			demand := regexp.MustCompile(`^[0-9]+\n<results><error>` + wire.TextNeedsTLS +
				` \(connection [0-9]+\)</error></results>$`)
			said := demand.ReplaceAllString(string(got), "")
			require.Equal(t, addr == p.xml, said != string(got), "%s", got)
			require.NotContains(t, said, "results")
			require.NotContains(t, string(got), "outcry_")
			c.Close()
		}
		for name, change := range map[string]func(*tls.Config){
			"TLS 1.0":        func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 },
			"no certificate": func(c *tls.Config) { c.Certificates = nil },
			"wrong certificate": func(c *tls.Config) {
				c.Certificates[0] = certtest.NewAuthority(t).Client("mallory").Certificate
			},
			"old certificate": func(c *tls.Config) {
				c.Certificates[0] = p.authority.Expired("old", x509.ExtKeyUsageClientAuth).Certificate
			},
		} {
			config := p.client.Clone()
			config.Certificates = append([]tls.Certificate{}, config.Certificates...)
			change(config)
			c, err := tls.Dial("tcp", addr, config)
			if err == nil { // with TLS 1.3 the server checks the client's certificate only after the handshake
				_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+token+"\r\n\r\n")
				_, err = io.ReadAll(c)
				c.Close()
			}
			require.Error(t, err, "%s: %s", addr, name)
		}
	}
}

func TestAccountsTradeWithTheirTokens(t *testing.T) {
	p := startProtected(t)
	god, _ := p.token(t, "admin", time.Time{})
	first, id := p.token(t, "account:1", time.Time{})
	second, _ := p.token(t, "account:2", time.Time{})
	c := p.dial(t, god)
	require.NotContains(t, c.must(t, opening), "error")
	one, two := p.dial(t, first), p.dial(t, second)
	require.Contains(t, two.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`),
		`<opened`)
	require.Contains(t, two.must(t, `<transactions id="2"><query id="1"/></transactions>`), `<open shares="1"/>`)
	for _, frame := range []string{`<query id="1"/>`, `<cancel id="1"/>`, `<query id="99"/>`} {
		require.Contains(t, one.must(t, `<transactions id="1">`+frame+`</transactions>`), "there is no order ",
			"a foreign order is as one that is not")
	}
	require.Contains(t, one.must(t, `<transactions id="2"><cancel id="1"/></transactions>`), "not for account 2")
	require.Contains(t, one.must(t, `<create><account id="3" balance="1"/></create>`), "needs a token of scope admin")
	require.Contains(t, c.must(t, `<transactions id="1"><query id="1"/></transactions>`), `<open shares="1"/>`,
		"an admin may look")

	response, err := p.do(t.Context(), p.client, "POST", "/xml", first,
		`<transactions id="2"><cancel id="1"/></transactions>`)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, `<results><error id="1">the token of this connection is not for account 2</error></results>`,
		string(body))

	require.NoError(t, auth.Revoke(p.data, id)) // the server notices this by itself
	farewell, err := one.r.Next()
	require.NoError(t, err)
	require.Contains(t, string(farewell), "the token was revoked")
}

func TestTheStreamGoesOverTLSAndEndsWithItsToken(t *testing.T) {
	p := startProtected(t)
	token, id := p.token(t, "account:1", time.Time{})
	response, err := p.do(t.Context(), p.client, "GET", "/api/v1/stream", token, "")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, 1, response.ProtoMajor)
	lines := bufio.NewScanner(response.Body)
	events := 0
	for lines.Scan() && events < 3 {
		if strings.HasPrefix(lines.Text(), "event:") {
			events++
		}
	}
	require.Equal(t, 3, events, "they keep coming")
	require.NoError(t, auth.Revoke(p.data, id))
	for lines.Scan() {
	}
	require.NoError(t, p.reloadFiles())
}

func TestHealthOfAProtectedServer(t *testing.T) {
	p := startProtected(t)
	health := func(flags ...string) (int, string) {
		var out, errs strings.Builder
		exit := run(background, append([]string{"--health", "--http=" + p.httpAddr.String()}, flags...), &out, &errs)
		return exit, out.String() + errs.String()
	}
	exit, answer := health(p.flags...)
	require.Equal(t, exitOK, exit, answer)
	require.Equal(t, "ready\n", answer)
	exit, answer = health(append(p.flags, "--data="+t.TempDir())...)
	require.Equal(t, exitError, exit)
	require.Contains(t, answer, "a token is needed")
	exit, _ = health("--data=" + p.data)
	require.Equal(t, exitError, exit, "without TLS")
	other := certtest.NewAuthority(t).Server("other")
	exit, answer = health("--data="+p.data, "--tls-cert="+other.CertFile, "--tls-key="+other.KeyFile)
	require.Equal(t, exitError, exit, "it tells its token to nobody else")
	require.Contains(t, answer, "does not present the certificate")
	token, err := auth.HealthToken(p.data)
	require.NoError(t, err)
	response, err := p.do(t.Context(), p.client, "GET", "/metrics", token, "")
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}

func TestANewCertificateIsShownWithoutAnEndOfConnections(t *testing.T) {
	p := startProtected(t)
	token, _ := p.token(t, "admin", time.Time{})
	c := p.dial(t, token)
	before := p.guards.certificates.Expires()
	p.authority.Server("server") // overwrites the files
	require.NoError(t, p.reloadFiles())
	require.False(t, p.guards.certificates.Expires().Before(before))
	require.Contains(t, c.must(t, "<create/>"), "<results/>")
	require.NoError(t, os.WriteFile(strings.TrimPrefix(p.flags[3], "--tls-cert="), []byte("rubbish"), 0o600))
	require.Error(t, p.reloadFiles())
	require.Contains(t, p.dial(t, token).must(t, "<create/>"), "<results/>", "the one before stays")
}

func TestNoSecretIsInTheLog(t *testing.T) {
	flags, _ := dataFlags(t)
	data := strings.TrimPrefix(flags[0], "--data=")
	s, err := auth.ParseScope("admin")
	require.NoError(t, err)
	token, e, err := auth.Add(data, s, time.Time{}, "")
	require.NoError(t, err)
	p := start(t, append(flags, "--auth", "--log-level=DEBUG")...)
	c := dial(t, p.xml)
	require.Contains(t, c.must(t, string(wire.AppendAuth(nil, token))), "authorized")
	wrong := dial(t, p.xml)
	_, err = wrong.ask(string(wire.AppendAuth(nil, token[:len(token)-2]+"zz")))
	require.NoError(t, err)
	require.NoError(t, auth.Revoke(data, e.ID))
	_, err = c.r.Next()
	require.NoError(t, err)
	_, err = dial(t, p.xml).ask(string(wire.AppendAuth(nil, token)))
	require.NoError(t, err)
	p.stop(t)
	secret := token[len(token)-64 : len(token)-2]
	require.NotContains(t, p.log.String(), secret)
	require.Contains(t, p.log.String(), e.ID, "the id is for finding out whose it is")
	require.NoFileExists(t, filepath.Join(data, "health-token"))
	files, err := os.ReadDir(data)
	require.NoError(t, err)
	require.NotEmpty(t, files)
}

func TestRatesAreOnTheCommandLine(t *testing.T) {
	flags, _ := dataFlags(t)
	_, addr := inProcess(t, append(flags, "--rate-account=2", "--rate-connection=1000")...)
	c := dial(t, addr)
	require.Equal(t, 2, strings.Count(c.must(t, `<create>`+strings.Repeat(`<account id="1" balance="1"/>`, 4)+`</create>`),
		"over its limit of 2"))
}

func TestWrongSecurityFlagsAreNamed(t *testing.T) {
	for flags, want := range map[string]string{
		"--tls-cert=a":                 "--tls-key \"\": both are needed",
		"--tls-key=a":                  "--tls-cert \"\", --tls-key \"a\"",
		"--tls-client-ca=a":            "--tls-client-ca \"a\"",
		"--rate-account=-1":            "--rate-account -1",
		"--rate-connection=1000000001": "--rate-connection 1000000001",
	} {
		_, err := settings.Parse([]string{flags}, io.Discard)
		require.ErrorContains(t, err, want)
	}
	common, _ := dataFlags(t)
	_, _, err := tryInProcess(append(common, "--tls-cert=none", "--tls-key=none")...)
	require.ErrorContains(t, err, "--tls-cert: ")
	data := strings.TrimPrefix(common[0], "--data=")
	require.NoError(t, os.WriteFile(filepath.Join(data, "tokens"), []byte("rubbish"), 0o600))
	_, _, err = tryInProcess(append(common, "--auth")...)
	require.ErrorContains(t, err, "--auth: ")
}

func TestPortsThatAreOpenAreWarnedOf(t *testing.T) {
	inside, outside := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4zero}
	tell := func(all []settings.Exposure) (replied []string) {
		for _, e := range all {
			kind := "encrypted"
			if strings.Contains(e.String(), "requires no token") {
				kind = "token"
			}
			replied = append(replied, e.Port+" "+kind)
		}
		return replied
	}
	for _, test := range []struct {
		c         settings.Config
		xml, http net.Addr
		want      []string
	}{
		{settings.Config{}, inside, inside, nil},
		{settings.Config{}, inside, nil, nil},
		{settings.Config{}, outside, inside, []string{"XML encrypted", "XML token"}},
		{settings.Config{}, outside, outside, []string{"XML encrypted", "XML token", "HTTP encrypted", "HTTP token"}},
		{settings.Config{Auth: true}, inside, outside, []string{"HTTP encrypted"}},
		{settings.Config{TLSCert: "c"}, outside, outside, []string{"XML token", "HTTP token"}},
		{settings.Config{TLSCert: "c", TLSClientCA: "c"}, outside, outside, nil},
		{settings.Config{TLSCert: "c", Auth: true}, outside, outside, nil},
	} {
		require.Equal(t, test.want, tell(test.c.Exposures(test.xml, test.http)), fmt.Sprintf("%+v", test))
	}
	var log strings.Builder
	s := &server{config: &settings.Config{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	s.warnOfExposure(outside)
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "the XML port is open beyond this machine, and it requires no token")
}

// tokensOf creates a token for each scope, and returns the tokens by scope.
func tokensOf(t *testing.T, data string, scopes ...string) map[string]string {
	tokens := make(map[string]string)
	for _, text := range scopes {
		scope, err := auth.ParseScope(text)
		require.NoError(t, err)
		tokens[text], _, err = auth.Add(data, scope, time.Time{}, "")
		require.NoError(t, err)
	}
	return tokens
}
