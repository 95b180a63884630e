package audit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheLongestSilenceIsBetweenAnswersOfAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newKnowledge(nil)
		answer := func() { h.recordAnswers(new(frame), nil) }
		answer()
		time.Sleep(time.Hour) // a silence before Listen, which does not count
		answer()
		h.listen()
		for _, pause := range []time.Duration{20, 300, 40} {
			time.Sleep(pause * time.Millisecond)
			answer()
		}
		require.Equal(t, 300*time.Millisecond, h.longestSilence())
		time.Sleep(time.Second)
		require.Equal(t, time.Second, h.longestSilence(), "one that lasts counts")
	})
}
