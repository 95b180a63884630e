package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// answerBytesMax bounds an answer. The largest names 100,000 symbols.
const answerBytesMax = 32 << 20

// Client sends requests to the HTTP side of an exchange. Its methods may be called from any goroutine once
// the fields are set. Their errors say that the exchange could not be reached, or that it gave no answer to a
// request that may have been executed, or are an *Error.
type Client struct {
	Address string // host and port, or a URL
	Token   string // token to present; "" for none

	// InsecureToken allows the token to be sent to another machine without encryption. Otherwise such a request is an
	// error, and nothing is sent.
	InsecureToken bool

	http *http.Client
}

// Error is an answer that says why a request was not executed, or that it may have been executed.
type Error struct {
	Status int // HTTP status
	Text   string
}

// Error returns the exchange's text.
func (e *Error) Error() string { return e.Text }

// NewClient returns a client of the exchange at an address. A request may take up to timeout. The client uses
// TLS if secure is not nil, and no proxy, as proxies in the environment are meant for other traffic.
func NewClient(address string, timeout time.Duration, secure *tls.Config) *Client {
	if secure != nil && !strings.Contains(address, "://") {
		address = "https://" + address
	}
	c := &Client{Address: address}
	plain, encrypted := net.Dialer{Control: c.permit}, tls.Dialer{Config: secure}
	c.http = &http.Client{
		Transport: &http.Transport{DialContext: plain.DialContext, DialTLSContext: encrypted.DialContext},
		Timeout:   timeout,
		// An exchange never redirects, and the token must not be sent to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// errInsecureToken is the error if a token would be sent to another machine without encryption.
var errInsecureToken = errors.New("the token was not sent: the connection to another machine is not encrypted")

// permit returns an error if an unencrypted connection to an address must not be made.
func (c *Client) permit(_, address string, _ syscall.RawConn) error {
	if c.Token == "" || c.InsecureToken {
		return nil
	}
	if !OnThisMachine(address) {
		return errInsecureToken
	}
	return nil
}

// OnThisMachine reports whether a dialed address, of an IP and a port, is on this machine: its IP is loopback, missing
// or unspecified; the last two also mean this machine.
func OnThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return err == nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.Unmap().IsLoopback() || ip.Unmap().IsUnspecified())
}

// Halt halts a symbol.
func (c *Client) Halt(ctx context.Context, sym, reason string) (a HaltAnswer, err error) {
	values := url.Values{"sym": {sym}}
	if reason != "" {
		values.Set("reason", reason)
	}
	err = c.ask(ctx, http.MethodPost, "halt", values, &a)
	return a, err
}

// Resume ends the halt of a symbol.
func (c *Client) Resume(ctx context.Context, sym string) (a HaltAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "resume", url.Values{"sym": {sym}}, &a)
	return a, err
}

// CancelAll cancels all open orders of an account; only those of one symbol if sym is not empty.
func (c *Client) CancelAll(ctx context.Context, account, sym string) (a CancelAllAnswer, err error) {
	values := url.Values{"account": {account}}
	if sym != "" {
		values.Set("sym", sym)
	}
	err = c.ask(ctx, http.MethodPost, "cancel-all", values, &a)
	return a, err
}

// Status returns the state of the exchange.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.ask(ctx, http.MethodGet, "status", nil, &s)
	return s, err
}

// ask sends a request below /admin/ and decodes its answer.
func (c *Client) ask(ctx context.Context, method, what string, values url.Values, into any) error {
	return c.request(ctx, method, "admin/"+what, values, nil, into)
}

// request sends a request and decodes its answer.
func (c *Client) request(
	ctx context.Context, method, path string, values url.Values, send []byte, into any,
) error {
	address := c.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	u = u.JoinPath(path)
	u.RawQuery = values.Encode()
	var reached atomic.Bool
	got := func(httptrace.GotConnInfo) { reached.Store(true) }
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: got})
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(send))
	if err != nil {
		return err
	}
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.http.Do(request)
	switch {
	case errors.Is(err, errInsecureToken):
		return fmt.Errorf("%s: %w", c.Address, errInsecureToken)
	case err != nil && reached.Load():
		return c.noAnswer(method, withoutURL(err))
	case err != nil:
		return fmt.Errorf("is the exchange running, with an HTTP side at %s? %w", c.Address, withoutURL(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return c.noAnswer(method, err)
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s does not answer like an exchange: %w", c.Address, err)
	}
	return nil
}

// noAnswer returns the error of a request that reached the exchange and got no answer.
func (c *Client) noAnswer(method string, why error) error {
	if method == http.MethodGet {
		return fmt.Errorf("no answer from %s: %w", c.Address, why)
	}
	return fmt.Errorf("no answer from %s: whether it was done is unknown; it is safe to retry: %w", c.Address, why)
}

// withoutURL removes the URL from an error, because the caller names the address.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// refusal returns the error of an answer with a status other than 200.
func refusal(status int, body []byte) error {
	var a ErrorAnswer
	if json.Unmarshal(body, &a) != nil || a.Error == "" {
		a.Error = fmt.Sprintf("%s: %.200s", http.StatusText(status), strings.TrimSpace(string(body)))
	}
	return &Error{status, a.Error}
}
