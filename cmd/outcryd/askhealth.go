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
)

// Limits of a look at a server's health.
const (
	healthTimeout  = 5 * time.Second
	healthBytesMax = 4 << 10 // of its answer
)

// askHealth asks the server whose HTTP side is at the address --http whether it takes
// orders, and returns what it says; an error where it does not, or does not answer.
// It is for containers that have no other program to ask with.
func askHealth(ctx context.Context, address string) (string, error) {
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return "", err
	}
	// Not the default client: a proxy in the environment is for others.
	response, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, healthBytesMax))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not ready: %s", text)
	}
	return text, nil
}
