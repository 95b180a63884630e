package cli

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/auth"
	"outcry/internal/operate/settings"
)

// ReplyBytesMax bounds the size of a reply. The reply to a query of an order with a million executions is
// smaller.
const ReplyBytesMax = 256 << 20

// Access holds how the client connects to the exchange and authenticates itself.
type Access struct {
	Addr      string
	HTTPAddr  string
	HTTPAsked bool // a flag or variable gave the address of the HTTP side
	Timeout   time.Duration
	tokenFile string
	tlsCA     string
	tlsCert   string
	tlsKey    string
	insecure  bool      // the token may be sent to another machine unencrypted
	Stderr    io.Writer // receives warnings
}

// standardHTTP is the default address of the HTTP side.
const standardHTTP = "127.0.0.1:" + settings.PortHTTP

// systemCA is the value of --tls-ca that means the authorities that the machine trusts.
const systemCA = "system"

// Environment variables that only the client reads, except OldHTTPVariable.
const (
	HTTPVariable     = "OUTCRY_HTTP_ADDR"
	OldHTTPVariable  = "OUTCRY_HTTP" // holds the server's --http
	InsecureVariable = "OUTCRY_INSECURE_TOKEN"
	TokenVariable    = "OUTCRY_TOKEN"
)

// AccessVariables maps each flag to the environment variable that can replace it.
var AccessVariables = map[string]string{
	"addr": "OUTCRY_ADDR", "http": HTTPVariable, "token-file": "OUTCRY_TOKEN_FILE", "tls-ca": "OUTCRY_TLS_CA",
	"tls-cert": "OUTCRY_CLIENT_CERT", "tls-key": "OUTCRY_CLIENT_KEY",
}

// flags declares the flags for the connection. The token has no flag, because every user of the machine
// can read command lines.
func (a *Access) flags(f *flag.FlagSet) {
	f.StringVar(&a.Addr, "addr", "127.0.0.1:"+settings.PortXML,
		"`address` of the exchange, HOST or HOST:PORT; for a cluster, the addresses of all nodes: A,B,C; also as OUTCRY_ADDR")
	f.StringVar(&a.HTTPAddr, "http", standardHTTP,
		"`address` of the HTTP side of the exchange, HOST or HOST:PORT; for a cluster, the addresses of all nodes: A,B,C; "+
			"also as "+HTTPVariable)
	f.DurationVar(&a.Timeout, "timeout", 30*time.Second, "how long a reply may take")
	f.StringVar(&a.tokenFile, "token-file", "",
		"`file` with the token to send to the exchange, also as OUTCRY_TOKEN_FILE; OUTCRY_TOKEN holds the token itself")
	f.BoolVar(&a.insecure, "insecure-token", false,
		"send the token to another machine even over an unencrypted connection, which anyone on the path can "+
			"read; also as "+InsecureVariable+"=true")
	f.StringVar(&a.tlsCA, "tls-ca", "",
		"`file` with the certificate authority of the exchange in PEM, or \"system\": TLS is used then; also as "+
			"OUTCRY_TLS_CA")
	f.StringVar(&a.tlsCert, "tls-cert", "",
		"`file` with the client's certificate in PEM, also as OUTCRY_CLIENT_CERT")
	f.StringVar(&a.tlsKey, "tls-key", "", "`file` with its private key in PEM, also as OUTCRY_CLIENT_KEY")
}

// complete sets, from the environment, the values that the flags leave out, and adds the default port to the address
// that a command connects to. It returns a *UsageError if a value is invalid.
func (a *Access) complete(f *flag.FlagSet, reaches Reach) error {
	if reaches == Foreign {
		return nil
	}
	given := map[string]bool{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	names := map[string]string{}
	for name, variable := range AccessVariables {
		names[name] = "--" + name
		if value := os.Getenv(variable); value != "" && !given[name] {
			given[name], names[name] = true, variable
			if err := f.Set(name, value); err != nil {
				return Usage(fmt.Sprintf("%s: %v", variable, err))
			}
		}
	}
	a.insecure = a.insecure || !given["insecure-token"] && os.Getenv(InsecureVariable) == "true"
	a.HTTPAsked = given["http"]
	if !a.HTTPAsked && (reaches == HTTPSide || reaches == EitherSide) && a.heedServer(f.Name() == "outcry doctor") {
		names["http"] = OldHTTPVariable
	}
	var err error
	if reaches == XMLSide || reaches == EitherSide {
		if a.Addr, err = Addresses(a.Addr, settings.PortXML); err != nil {
			return Usage(names["addr"] + ": " + err.Error())
		}
	}
	if reaches == HTTPSide || reaches == EitherSide {
		if a.HTTPAddr == "" && f.Name() == "outcry doctor" {
			return nil
		}
		if a.HTTPAddr, err = Addresses(a.HTTPAddr, settings.PortHTTP); err != nil {
			return Usage(names["http"] + ": " + err.Error())
		}
	}
	return nil
}

// Addresses adds the default port to each address in a list that has no port. URLs, which are allowed only for the
// HTTP side, are unchanged. It returns an error if an address is malformed.
func Addresses(list, port string) (string, error) {
	all := strings.Split(list, ",")
	for i, one := range all {
		one = strings.TrimSpace(one)
		if port == settings.PortHTTP && strings.Contains(one, "://") {
			all[i] = one
			continue
		}
		whole, err := settings.Address(one, port)
		if err != nil && len(all) > 1 {
			return "", fmt.Errorf("address %d of %d: %w", i+1, len(all), err)
		}
		if err != nil {
			return "", err
		}
		all[i] = whole
	}
	return strings.Join(all, ","), nil
}

// heedServer sets the address of the HTTP side from the server's variable, as earlier versions did, prints a
// warning, and returns true. It returns false if the variable is empty or, except for doctor, holds the default
// address.
func (a *Access) heedServer(doctor bool) bool {
	old := os.Getenv(OldHTTPVariable)
	if old == "" {
		return false
	}
	if whole, err := settings.Address(old, settings.PortHTTP); err == nil && !doctor {
		switch whole {
		case standardHTTP, ":" + settings.PortHTTP, "localhost:" + settings.PortHTTP, "0.0.0.0:" + settings.PortHTTP:
			return false
		}
	}
	a.HTTPAddr, a.HTTPAsked = old, true
	fmt.Fprintf(a.Stderr, "outcry: warning: %s is a setting of the server, and the next version of outcry will ignore "+
		"it: set %s, or give --http\n", OldHTTPVariable, HTTPVariable)
	return true
}

// Options returns the options of a connection for one frame: TLS, the token, the time limit including retries, and
// where warnings are printed. The error names the wrong flag, or the file that it gives.
func (a *Access) Options() (o api.Options, err error) {
	o = api.Options{DialTimeout: a.Timeout, ReplyTimeout: a.Timeout, RetryTime: a.Timeout, ReplyBytesMax: ReplyBytesMax,
		InsecureToken: a.insecure, Log: slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if o.Token, err = a.token(); err != nil {
		return o, err
	}
	o.TLS, err = a.tls()
	return o, err
}

// CheckTimeout returns a *UsageError if the timeout is not positive. With such a timeout no reply could arrive in
// time, and a script that retries on status 3 would retry forever.
func (a *Access) CheckTimeout() error {
	if a.Timeout <= 0 {
		return Usage(fmt.Sprintf("--timeout %s: must be more than 0", a.Timeout))
	}
	return nil
}

// token returns the token to send, or "" for none.
func (a *Access) token() (string, error) {
	if a.tokenFile != "" {
		token, err := auth.ReadToken(a.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return token, nil
	}
	text := os.Getenv(TokenVariable)
	if text == "" {
		return "", nil
	}
	token, err := auth.CleanToken(text)
	if err != nil {
		return "", fmt.Errorf("OUTCRY_TOKEN: %w", err)
	}
	return token, nil
}

// tls returns the TLS configuration, or nil if TLS is not used.
func (a *Access) tls() (*tls.Config, error) {
	if a.tlsCA == "" {
		if a.tlsCert != "" || a.tlsKey != "" {
			return nil, Usage("--tls-cert and --tls-key need --tls-ca")
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
		return nil, Usage("--tls-cert and --tls-key: both are needed, or neither")
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
