package main

import (
	"context"
	"crypto/tls"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/certtest"
)

// TestAPasswordIsInNoLogWhereverItWasGiven starts a server whose database is unreachable or whose database URL is
// invalid, for each place and each form in which a password can be given.
func TestAPasswordIsInNoLogWhereverItWasGiven(t *testing.T) {
	const secret = "verysecret"
	places := map[string]func(t *testing.T, url string) (flag string){
		"flag":         func(_ *testing.T, url string) string { return "--database-url=" + url },
		"environment":  func(t *testing.T, url string) string { t.Setenv("DATABASE_URL", url); return "" },
		"our variable": func(t *testing.T, url string) string { t.Setenv("OUTCRY_DATABASE_URL", url); return "" },
		"file of its own": func(t *testing.T, url string) string {
			return "--database-url-file=" + writeFile(t, "url", url+"\n")
		},
		"settings": func(t *testing.T, url string) string {
			return "--config=" + writeFile(t, "outcryd.conf", `database-url = "`+url+`"`+"\n")
		},
		"file in the wrong place": func(t *testing.T, url string) string {
			return "--config=" + writeFile(t, "url", url+"\n")
		},
	}
	forms := map[string]string{
		"away":            "postgres://u:" + secret + "@127.0.0.1:1/d?sslmode=disable",
		"as a parameter":  "postgres://u@127.0.0.1:1/d?sslmode=disable&password=" + secret,
		"in words":        "host=127.0.0.1 port=1 user=u password=" + secret + " sslmode=disable",
		"a wrong port":    "postgres://u:" + secret + "@127.0.0.1:port/d",
		"a wrong option":  "postgres://u:" + secret + "@127.0.0.1:1/d?sslmode=" + secret,
		"a wrong escape":  "postgres://u:" + secret + "%zz@127.0.0.1:1/d",
		"nothing but it":  secret,
		"words without =": "host 127.0.0.1 password " + secret,
	}
	for place, give := range places {
		for form, url := range forms {
			t.Run(place+", "+form, func(t *testing.T) {
				t.Setenv("DATABASE_URL", "")
				args := []string{"--listen=127.0.0.1:0", "--http=", "--data=" + t.TempDir(), "--log-level=DEBUG"}
				if flag := give(t, url); flag != "" {
					args = append(args, flag)
				}
				var out, log logBuffer
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan int, 1)
				go func() { ended <- run(ctx, args, &out, &log) }()
				require.Eventually(t, func() bool {
					return len(ended) > 0 || strings.Contains(log.String(), "waiting for Postgres")
				}, patience, time.Millisecond)
				stop()
				<-ended
				run(t.Context(), append(args, "--check-config"), &out, &log)
				require.NotEmpty(t, log.String()+out.String())
				require.NotContains(t, log.String()+out.String(), secret)
			})
		}
	}
}

// TestAURLInPlaceOfItsFileIsNotShown gives a database URL where a file name is expected.
func TestAURLInPlaceOfItsFileIsNotShown(t *testing.T) {
	const url = "postgres://u:verysecret@127.0.0.1:1/d"
	for place, give := range map[string]func(t *testing.T) (flag string){
		"--database-url-file": func(*testing.T) string { return "--database-url-file=" + url },
		"DATABASE_URL_FILE":   func(t *testing.T) string { t.Setenv("DATABASE_URL_FILE", url); return "--http=" },
		"outcryd.conf:1": func(t *testing.T) string {
			return "--config=" + writeFile(t, "outcryd.conf", `database-url-file = "`+url+`"`+"\n")
		},
	} {
		t.Run(place, func(t *testing.T) {
			t.Setenv("DATABASE_URL", "")
			args := []string{"--data=" + t.TempDir(), give(t)}
			for _, args := range [][]string{args, append(args, "--check-config")} {
				var out, log logBuffer
				require.Equal(t, exitUsage, run(t.Context(), args, &out, &log))
				require.Contains(t, log.String(), place+": --database-url-file: that is not a file name")
				require.NotContains(t, log.String()+out.String(), "verysecret")
			}
		})
	}
}

// TestNoSecretOfAClientIsInTheLog presents tokens and certificates that the server refuses: a valid token after a
// failed handshake, invalid tokens of the right form, and a token in each place where no token belongs.
func TestNoSecretOfAClientIsInTheLog(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	own := authority.Server("server")
	flags, _ := dataFlags(t)
	data := strings.TrimPrefix(flags[0], "--data=")
	scope, err := auth.ParseScope("account:1")
	require.NoError(t, err)
	right, _, err := auth.Add(data, scope, time.Time{}, "")
	require.NoError(t, err)
	p := start(t, append(flags, "--auth", "--log-level=DEBUG", "--tls-cert="+own.CertFile, "--tls-key="+own.KeyFile,
		"--tls-client-ca="+authority.File)...)
	const digits = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2"
	wrong := right[:len(right)-len(digits)] + digits
	unknown := "outc_0123456789abcdef_" + digits
	send := func(pair certtest.Pair, addr, text string) {
		c, err := tls.Dial("tcp", addr,
			&tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{pair.Certificate}})
		if err != nil {
			return // with TLS 1.3 the server checks the client's certificate only after the handshake
		}
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, _ = io.WriteString(c, text)
		_, _ = io.ReadAll(c)
	}
	alice, nobody := authority.Client("alice"), certtest.NewAuthority(t).Client("nobody")
	framed := func(xml string) string { return string(wire.AppendFrame(nil, []byte(xml))) }
	get := func(path, header string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + header + "\r\n\r\n"
	}
	for _, token := range []string{right, wrong, unknown} {
		send(nobody, p.xml, framed(string(wire.AppendAuth(nil, token))))
		send(nobody, p.http, get("/metrics", "Authorization: Bearer "+token))
		send(alice, p.xml, framed(`<transactions id="`+token+`"/>`))
		send(alice, p.xml, framed(`<auth Token="`+token+`"/>`))
		send(alice, p.xml, token+"\n")
		send(alice, p.http, get("/api/v1/symbols?token="+token, "Cookie: token="+token))
		send(alice, p.http, get("/xml", "Authorization: Digest "+token))
		send(alice, p.http, token+" / HTTP/1.1\r\n\r\n")
	}
	for _, token := range []string{wrong, unknown} {
		send(alice, p.xml, framed(string(wire.AppendAuth(nil, token))))
		send(alice, p.http, get("/metrics", "Authorization: Bearer "+token))
	}
	p.stop(t)
	require.Contains(t, p.log.String(), "a TLS handshake has failed")
	require.Contains(t, p.log.String(), "token 0123456789abcdef: no such token")
	require.NotContains(t, p.log.String(), digits)
	require.NotContains(t, p.log.String(), right[len(right)-64:])
	for _, file := range []string{own.KeyFile, nobody.KeyFile} {
		key, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, p.log.String(), strings.Split(string(key), "\n")[1])
	}
}
