package journal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExactlyWhatIsHeldStays: RemoveBefore keeps the segment with the oldest record that is still
// needed and all later segments, whether that record is the last or the first of its segment.
func TestExactlyWhatIsHeldStays(t *testing.T) {
	const last = 200
	holders := map[string]func(t *testing.T, j *Journal, seq uint64) (before uint64){
		"nobody": func(_ *testing.T, _ *Journal, seq uint64) uint64 { return seq },
		"a reader": func(t *testing.T, j *Journal, seq uint64) uint64 {
			_, err := j.NewReader(seq)
			require.NoError(t, err)
			return last + 1
		},
		"a follower": func(t *testing.T, j *Journal, seq uint64) uint64 {
			_, err := j.NewFollower(1, last+1-seq)
			require.NoError(t, err)
			return last + 1
		},
		"a follower that has read": func(t *testing.T, j *Journal, seq uint64) uint64 {
			r, err := j.NewFollower(1, last)
			require.NoError(t, err)
			for range seq - 1 {
				_, _, ok, err := r.TryNext()
				require.NoError(t, err)
				require.True(t, ok)
			}
			return last + 1
		},
	}
	for name, hold := range holders {
		for _, at := range []int{-1, 0, 1} {
			t.Run(fmt.Sprintf("%s, %+d", name, at), func(t *testing.T) {
				j, err := open(newMemFS(), memDir, small)
				require.NoError(t, err)
				defer j.Close()
				fill(t, j, last, 90)
				segments := j.segments
				oldest := segments[3].first
				seq := uint64(int(oldest) + at)
				if at < 0 {
					oldest = segments[2].first
				}
				require.NoError(t, j.RemoveBefore(hold(t, j, seq)))
				require.Equal(t, oldest, j.First())
			})
		}
	}
}
