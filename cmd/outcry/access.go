package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/auth"
)

// access is how the client gets to the exchange, and proves who it is.
type access struct {
	addr      string
	httpAddr  string
	timeout   time.Duration
	tokenFile string
	tlsCA     string
	tlsCert   string
	tlsKey    string
	insecure  bool      // the token may go to another machine in the clear
	stderr    io.Writer // for warnings
}

// standardHTTP is where the HTTP side is unless something else is said.
const standardHTTP = "127.0.0.1:8080"

// systemCA is what --tls-ca says for the authorities that the machine trusts.
const systemCA = "system"

// flags declares what is said on the command line. A token is not: everybody on the
// machine can read that.
func (a *access) flags(f *flag.FlagSet) {
	f.StringVar(&a.addr, "addr", envOr("OUTCRY_ADDR", "127.0.0.1:12345"), "`address` of the exchange, also as OUTCRY_ADDR")
	f.StringVar(&a.httpAddr, "http", envOr("OUTCRY_HTTP", standardHTTP), "`address` of its HTTP side, also as OUTCRY_HTTP")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "how long an answer may take")
	f.StringVar(&a.tokenFile, "token-file", os.Getenv("OUTCRY_TOKEN_FILE"),
		"`file` with the token that is shown to the exchange, also as OUTCRY_TOKEN_FILE; OUTCRY_TOKEN holds the token itself")
	f.BoolVar(&a.insecure, "insecure-token", os.Getenv("OUTCRY_INSECURE_TOKEN") == "true",
		"show the token also to another machine over a connection that is not encrypted, which everybody on the way can "+
			"read; also as OUTCRY_INSECURE_TOKEN=true")
	f.StringVar(&a.tlsCA, "tls-ca", os.Getenv("OUTCRY_TLS_CA"),
		"`file` of the authority that the exchange's certificate is of, in PEM, or \"system\"; TLS is spoken then. Also as "+
			"OUTCRY_TLS_CA")
	f.StringVar(&a.tlsCert, "tls-cert", os.Getenv("OUTCRY_CLIENT_CERT"),
		"`file` of the certificate that is shown to the exchange, in PEM, also as OUTCRY_CLIENT_CERT")
	f.StringVar(&a.tlsKey, "tls-key", os.Getenv("OUTCRY_CLIENT_KEY"),
		"`file` of its private key, in PEM, also as OUTCRY_CLIENT_KEY")
}

// options are those of a connection for one frame: TLS, the token, how long it may take,
// sending again included, and that warnings are printed. The error says what of the
// flags or their files is wrong.
func (a *access) options() (o api.Options, err error) {
	o = api.Options{DialTimeout: a.timeout, ReplyTimeout: a.timeout, RetryTime: a.timeout, ReplyBytesMax: replyBytesMax,
		InsecureToken: a.insecure, Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if o.Token, err = a.token(); err != nil {
		return o, err
	}
	o.TLS, err = a.tls()
	return o, err
}

// token returns the token that is shown, "" for none.
func (a *access) token() (string, error) {
	if a.tokenFile != "" {
		token, err := auth.ReadToken(a.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return token, nil
	}
	text := os.Getenv("OUTCRY_TOKEN")
	if text == "" {
		return "", nil
	}
	token, err := auth.CleanToken(text)
	if err != nil {
		return "", fmt.Errorf("OUTCRY_TOKEN: %w", err)
	}
	return token, nil
}

// tls returns how TLS is spoken, nil if it is not.
func (a *access) tls() (*tls.Config, error) {
	if a.tlsCA == "" {
		if a.tlsCert != "" || a.tlsKey != "" {
			return nil, &usageError{"--tls-cert and --tls-key need --tls-ca"}
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if a.tlsCA != systemCA {
		if config.RootCAs, err = auth.LoadAuthorities(a.tlsCA); err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
	}
	if (a.tlsCert == "") != (a.tlsKey == "") {
		return nil, &usageError{"--tls-cert and --tls-key: both are needed, or neither"}
	}
	if a.tlsCert != "" {
		own, err := tls.LoadX509KeyPair(a.tlsCert, a.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
