package door

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// The bounds have the values that the documentation names. Other tests check what each bound does.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
	require.NoError(t, doctest.Bounds("../../docs/reference/BOUNDS.md", map[string][]string{
		"`RefusedMax`":                         {fmt.Sprint(RefusedMax)},
		"connections that have proved nothing": {seconds(handshakeTimeout), seconds(AuthTimeout)},
		"`--max-frame`":                        {fmt.Sprintf("%d KiB before a token", authFrameBytesMax>>10)},
		"`lateBatchesMax`":                     {fmt.Sprintf("%d batches", lateBatchesMax)},
		"`recallsMax`":                         {fmt.Sprintf("%d orders", recallsMax), seconds(recallTimeout)},
		"`answersMax`":                         {fmt.Sprint(answersMax)},
		"`lateAnswersMax`":                     {fmt.Sprint(lateAnswersMax)},
		"`--write-timeout`":                    {fmt.Sprintf("%d KiB", writeBytesMax>>10)},
	}))
	require.Equal(t, time.Minute, slowMax, "docs/DEPLOYMENT.md says that reading goes on after a minute")
}
