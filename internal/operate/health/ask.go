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

// Limits of asking a server.
const (
	askTimeout     = 5 * time.Second
	answerBytesMax = 4 << 10
)

// Ask asks the server whose HTTP side is at the address --http whether it takes
// orders, and returns what it says; an error if it does not take them, or does not answer.
// Of a node of a cluster it asks whether that leads or follows.
// It is for containers that have no other program to ask with. Over TLS it takes the
// certificate --tls-cert alone and shows it too. With --auth the server has left a
// token for it in its data directory.
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
		host = "localhost" // a server that listens on all addresses
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	scheme, transport := "http", &http.Transport{} // not the default one: a proxy in the environment is for others
	if c.TLSCert != "" {
		scheme = "https"
		if transport.TLSClientConfig, err = auth.OwnConfig(c.TLSCert, c.TLSKey); err != nil {
			return "", err
		}
	}
	path := "/readyz"
	if c.Clustered() { // a node that follows is as it should be
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
