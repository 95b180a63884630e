package admin

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
)

// TestWhoIsToTryLaterIsToldWhen: while as many clients as allowed wait for a delayed refusal, further clients are
// refused at once, with Retry-After.
func TestWhoIsToTryLaterIsToldWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		o := options()
		o.Refused, o.Denied = func() {}, func() {}
		o.Tokens, err = auth.OpenTokens(t.TempDir(), o.Log)
		require.NoError(t, err)
		h := Handler(o)
		ask := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil)
			r.Header.Set("Authorization", "Bearer wrong")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		refused := make(chan *httptest.ResponseRecorder, 74)
		for range cap(refused) { // 10 are refused at once, and 64 wait
			go func() { refused <- ask() }()
		}
		synctest.Wait()
		w := ask()
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		for range cap(refused) {
			w := <-refused
			require.Equal(t, http.StatusUnauthorized, w.Code)
			require.Empty(t, w.Header().Get("Retry-After"))
		}
	})
}
