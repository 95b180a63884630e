package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNobodyKeepsMarketData: no cache keeps it, and a browser interprets it only as its content type.
func TestNobodyKeepsMarketData(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	for _, path := range []string{
		"/api/v1/symbols", "/api/v1/stream", "/api/v1/book?sym=NONE", "/api/v1/stream?sym=NONE",
	} {
		answer, err := s.server.Client().Get(s.server.URL + path)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, []string{"no-store"}, answer.Header.Values("Cache-Control"), path)
		require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"), path)
	}
	answer, err := s.server.Client().Get(s.server.URL + "/api/v1/stream")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Empty(t, answer.TransferEncoding, "events are written as they are")
	require.NoError(t, answer.Body.Close())
}
