package idmap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheRingEndsAtItsBound checks that with 128 values in each page the ring keeps 4,096 pages, and older
// values move to the table. With 127 values, a page is given up as soon as its place is needed.
func TestTheRingEndsAtItsBound(t *testing.T) {
	for perPage, want := range map[uint64]int{128: 4096, 127: 64} {
		var m Map
		for number := range uint64(4096 + 200) {
			for n := range perPage {
				m.Add(number*1024+n+1, 7)
			}
		}
		require.Len(t, m.ring.Load().pages, want, "%d values a page", perPage)
		for number := range uint64(4096 + 200) {
			require.Equal(t, uint64(7), m.Find(number*1024+perPage))
		}
	}
}
