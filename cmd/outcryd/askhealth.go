package main

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
	"outcry/internal/settings"
)

// Limits of a look at a server's health.
const (
	healthTimeout  = 5 * time.Second
	healthBytesMax = 4 << 10 // of its answer
)

// askHealth asks the server whose HTTP side is at the address --http whether it takes
// orders, and returns what it says; an error where it does not, or does not answer.
// It is for containers that have no other program to ask with. Over TLS it takes the
// certificate --tls-cert alone and shows it too. With --auth the server has left a
// token for it in its data directory.
func askHealth(ctx context.Context, c *settings.Config) (string, error) {
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
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	scheme, transport := "http", &http.Transport{} // not the default one: a proxy in the environment is for others
	if c.TLSCert != "" {
		scheme = "https"
		if transport.TLSClientConfig, err = auth.OwnConfig(c.TLSCert, c.TLSKey); err != nil {
			return "", err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
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
	body, err := io.ReadAll(io.LimitReader(response.Body, healthBytesMax))
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
