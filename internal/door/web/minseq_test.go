package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"outcry/internal/testing/markettest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnAnswerWaitsForTheRecordThatItsRequestNames: an answer waits for the record min_seq, and includes it.
func TestAnAnswerWaitsForTheRecordThatItsRequestNames(t *testing.T) {
	s, m := openSite(t, func(*APIOptions) {}), markettest.NewRandomMarket(1, 5)
	next := func() []byte {
		m.MakeSymbol()
		return m.Take()[0]
	}
	s.play(next(), next())
	for _, path := range []string{"/api/v1/symbols", "/api/v1/symbols?min_seq=2"} {
		var now symbolsAnswer
		require.Equal(t, http.StatusOK, s.get(path, &now))
		require.EqualValues(t, 2, now.Seq, "it is there")
	}
	later := make(chan symbolsAnswer, 1)
	go func() {
		var answer symbolsAnswer
		s.get("/api/v1/symbols?min_seq=4", &answer)
		later <- answer
	}()
	waits := func() bool { return s.api.waiting.Load() == 1 }
	require.Eventually(t, waits, patience, time.Millisecond)
	s.play(next())
	require.True(t, waits(), "record 3 is not record 4")
	s.play(next())
	require.EqualValues(t, 4, (<-later).Seq)
	require.Zero(t, s.api.waiting.Load())
}

func TestWaitsForRecordsAreBounded(t *testing.T) {
	s := openSite(t, func(*APIOptions) {})
	for _, value := range []string{"-1", "x", "1.5", fmt.Sprint(uint64(1) << 63)} {
		var refused struct{ Error string }
		require.Equal(t, http.StatusBadRequest, s.get("/api/v1/symbols?min_seq="+value, &refused))
		require.Contains(t, refused.Error, "min_seq")
		require.Equal(t, http.StatusBadRequest, s.get("/api/v1/stream?min_seq="+value, &refused))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := s.api.await(ctx, s.feed, query{url.Values{"min_seq": {"7"}}})
	require.ErrorContains(t, err, "record 7 has not arrived within 5s, the last one is 0")

	s.api.waiting.Store(minSeqWaitsMax)
	var refused struct{ Error string }
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/symbols?min_seq=1", &refused))
	require.Contains(t, refused.Error, "256 requests wait for a record")
	require.EqualValues(t, minSeqWaitsMax, s.api.waiting.Load())
	s.api.waiting.Store(0)

	s.stop() // stops the feed
	require.Equal(t, http.StatusServiceUnavailable, s.get("/api/v1/symbols?min_seq=1", &refused))
}
