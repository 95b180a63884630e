package admin

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAQuestionMayTakeLong: the time limit of a body does not apply to requests without a body, such as a profile.
func TestAQuestionMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Market = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(100 * time.Second):
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
				w.WriteHeader(http.StatusGatewayTimeout)
			}
		})
		l := &pipeListener{conns: make(chan net.Conn)}
		l.closed, l.close = context.WithCancel(t.Context())
		s := NewServer(o)
		go func() { _ = s.Serve(l) }()
		defer s.Close()
		ours, theirs := net.Pipe()
		l.conns <- theirs
		c := &rawClient{t, ours, bufio.NewReader(ours)}
		for range 2 {
			c.send("GET /api/v1/symbols HTTP/1.1\r\nHost: localhost\r\n\r\n")
			answer, err := http.ReadResponse(c.in, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusNoContent, answer.StatusCode)
		}
		require.NoError(t, ours.Close())
	})
}
