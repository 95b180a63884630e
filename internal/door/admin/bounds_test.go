package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// TestBoundsAreTheDocumentedOnes checks the values of the bounds. Other tests check what each bound does, mostly
// without stating its value.
func TestBoundsAreTheDocumentedOnes(t *testing.T) {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
	require.NoError(t, doctest.Bounds("../../../docs/reference/BOUNDS.md", map[string][]string{
		"`OperatorConnectionsMax`": {fmt.Sprintf("%d more", OperatorConnectionsMax)},
		"`headerTimeout`": {fmt.Sprintf("%d KiB", headerBytesMax>>10), seconds(headerTimeout), seconds(readTimeout),
			seconds(writeTimeout), fmt.Sprintf("%g min", idleTimeout.Minutes())},
		"`bodiesMax`": {fmt.Sprintf("%d,%03d", bodiesMax/1000, bodiesMax%1000),
			fmt.Sprintf("%d KiB", smallBodyMax>>10), seconds(bodyTimeout)},
		"`requestBodyTimeout`": {seconds(requestBodyTimeout)},
		"`operateTimeout`":     {seconds(operateTimeout)},
	}))
	s := NewServer(options())
	require.Equal(t, []any{headerBytesMax, headerTimeout, readTimeout, writeTimeout, idleTimeout},
		[]any{s.MaxHeaderBytes, s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout}, "the server has them")
}
