package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"outcry/internal/auth"
	"outcry/internal/operate/settings"
)

// Limits of a request to the server.
const (
	askTimeout     = 5 * time.Second
	answerBytesMax = 4 << 10
)

// Ask asks a running server on this machine, through its HTTP side (--http), whether it is ready to accept
// orders, and returns the server's text. The error says that it is not ready, or gives no answer. A cluster
// node is instead asked whether it leads or follows. Ask is for containers that have no other HTTP client.
// Over TLS it accepts only the certificate --tls-cert, and presents it too. With --auth it uses the token
// that the server has written into its data directory.
func Ask(ctx context.Context, c *settings.Config) (string, error) {
	address := c.HTTP
	if address == "" {
		return "", errors.New("--http is empty: there is nothing to ask")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("--http: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // the server listens on all addresses
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// Not the default transport: a proxy in the environment is meant for other traffic.
	scheme, transport := "http", &http.Transport{}
	if c.TLSCert != "" {
		scheme = "https"
		if transport.TLSClientConfig, err = auth.OwnConfig(c.TLSCert, c.TLSKey); err != nil {
			return "", err
		}
	}
	path := "/readyz"
	if c.Clustered() { // a node that follows is healthy too
		path = "/healthz"
	}
	url := scheme + "://" + net.JoinHostPort(host, port) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	token, tokenErr := auth.HealthToken(c.Data)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if response.StatusCode == http.StatusUnauthorized && tokenErr != nil {
		return "", fmt.Errorf("the server asks for a token: %w", tokenErr)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not ready: %s", text)
	}
	return text, nil
}
