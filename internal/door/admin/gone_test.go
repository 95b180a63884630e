package admin

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAClientWhoseFrameIsUnderWayAndHasGoneIsNoErrorOfTheExchange: if a client disconnects while its frame is
// executed, no error is logged. If the exchange does not answer a connected client, an error is logged.
func TestAClientWhoseFrameIsUnderWayAndHasGoneIsNoErrorOfTheExchange(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	begun, ended := make(chan struct{}), make(chan struct{})
	o.Answer = func(ctx context.Context, _ []byte, _ func([]byte)) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	s := NewServer(o)
	handler := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		handler.ServeHTTP(w, r)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	body := bytes.NewBufferString("<create/>")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String()+"/xml", body)
	require.NoError(t, err)
	_, err = http.DefaultClient.Do(r)
	require.ErrorIs(t, err, context.Canceled)
	<-ended
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.NotContains(t, log.String(), "level=ERROR")

	log.Reset()
	o.Answer = func(context.Context, []byte, func([]byte)) error { return errors.New("the disk is gone") }
	answer, err := http.Post(serve(t, o).URL+"/xml", "text/xml", bytes.NewBufferString("<create/>"))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "the disk is gone")
}
