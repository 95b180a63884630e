package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/load"
)

// flat returns the result of a soak in which nothing grows.
func flat() *Soak {
	r := &Soak{}
	for i := range 30 {
		r.Samples = append(r.Samples, Sample{Second: float64(10 * i), Moment: load.Moment{Requests: 1000, P99: 2},
			Resident: 100 << 20, Files: 300, Goroutines: 600})
	}
	return r
}

func TestWhatGrowsIsFound(t *testing.T) {
	require.Empty(t, flat().judge())
	for want, change := range map[string]func(*Sample, float64){
		"memory":        func(s *Sample, x float64) { s.Resident = int64((100 + 10*x) * (1 << 20)) },
		"open files":    func(s *Sample, x float64) { s.Files += int(2 * x) },
		"goroutines":    func(s *Sample, x float64) { s.Goroutines += 50 * x },
		"median of p99": func(s *Sample, x float64) { s.P99 += x * x / 20 },
	} {
		r := flat()
		for i := range r.Samples {
			change(&r.Samples[i], float64(i))
		}
		findings := r.judge()
		require.Len(t, findings, 1, want)
		require.Contains(t, findings[0], want+" did not stay flat")
	}
	r := flat()
	r.Errors, r.Example = 3, "refused"
	require.Equal(t, []string{"3 unexpected replies, for example: refused"}, r.judge())
	r.Samples = r.Samples[:3]
	require.Contains(t, r.judge()[0], "too few")
}

func TestOneSlowMomentIsNotGrowth(t *testing.T) {
	r := flat()
	r.Samples[25].P99, r.Samples[26].P99 = 500, 400
	require.Empty(t, r.judge())
}

func TestLatencyOfAShortRunIsNotJudged(t *testing.T) {
	r := flat()
	for i := range r.Samples {
		r.Samples[i].Second, r.Samples[i].P99 = float64(i), float64(i*i)
	}
	require.Empty(t, r.judge())
}
