package guard

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/harness"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/processes"
)

// small is a load for tests.
var small = anchors.Shape{Connections: 4, Depth: 4}

// TestAProgramIsComparedWithItself measures real servers, each of which must have every order in its tables when its
// processor time is read. The program that is first changes from round to round.
func TestAProgramIsComparedWithItself(t *testing.T) {
	budget.SkipShort(t, "it builds and starts servers")
	root, err := harness.Root(t.Context())
	require.NoError(t, err)
	program, err := harness.Build(t.Context(), root, "./cmd/outcryd", t.TempDir())
	require.NoError(t, err)
	dir := t.TempDir()
	var out, written bytes.Buffer
	r := &Report{Base: Recorded, Head: "head", Machine: "a machine", Loads: []anchors.Shape{small}}
	rounds := budget.Of(2)
	o := Options{Rounds: rounds, Duration: 200 * time.Millisecond, Out: &out}
	require.NoError(t, r.measure(t.Context(), o, [2]string{program, program}, dir), &out)
	require.Len(t, r.Pairs, rounds)
	for _, p := range r.Pairs {
		for _, point := range p.Points {
			require.Positive(t, point.Rate)
			require.Zero(t, point.Errors)
		}
	}
	measured := regexp.MustCompile("base|head").FindAllString(out.String(), -1)
	require.Equal(t, []string{"base", "head", "head", "base"}[:2*rounds], measured)
	r.Write(&written)
	require.Equal(t, 4, strings.Count(written.String(), small.String()), &written)
	require.Contains(t, written.String(), "64×16, µs of the server: at most 0.85: not measured")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "all files of the servers are removed")
	require.Empty(t, processes.Children(os.Getpid()), "all servers have ended")
}

func TestAServerThatDoesNotStartFailsTheRun(t *testing.T) {
	dir := t.TempDir()
	r := &Report{Loads: []anchors.Shape{small}}
	o := Options{Rounds: 1, Duration: time.Second, Out: &bytes.Buffer{}}
	err := r.measure(t.Context(), o, [2]string{"/bin/false", "/bin/false"}, dir)
	require.ErrorContains(t, err, "guard: base at 4×4: anchors: start outcry")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestRatiosAreOfTheSameRound checks each ratio, and the goals, which are about the median.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	r := &Report{Base: Recorded, Head: "head", Rounds: 3, Duration: time.Second, Machine: "a machine",
		Loads: []anchors.Shape{pipelined, single}}
	add := func(at anchors.Shape, server, postgres [2]float64) {
		p := Pair{At: at}
		for s := range p.Points {
			p.Points[s] = &anchors.Point{ServerCPU: server[s], PostgresCPU: postgres[s]}
			p.Points[s].Rate = 1000 * float64(s+1)
		}
		r.Pairs = append(r.Pairs, p)
	}
	add(pipelined, [2]float64{10, 8}, [2]float64{10, 9})
	add(pipelined, [2]float64{20, 10}, [2]float64{0, 10})
	add(pipelined, [2]float64{10, 20}, [2]float64{10, 10})
	add(single, [2]float64{10, 9}, [2]float64{0, 0})
	require.Equal(t, []float64{0.8, 0.5, 2}, r.ratios(pipelined, server))
	require.Equal(t, []float64{0.9, 1}, r.ratios(pipelined, postgres), "without the round in which base has no time")
	var b bytes.Buffer
	r.Write(&b)
	text := regexp.MustCompile(" +").ReplaceAllString(b.String(), " ")
	require.Contains(t, text, "base is cbb419f937ce, head is head; in turns on a machine\nmedian (least to most) of 3 ")
	require.Contains(t, text, "64×16 orders/s 1000 (1000 to 1000) 2000 (2000 to 2000) 2.00 (2.00 to 2.00)\n")
	require.Contains(t, text, "µs of the server 10.00 (10.00 to 20.00) 10.00 (8.00 to 20.00) 0.80 (0.50 to 2.00)\n")
	require.Contains(t, text, "64×1 µs of Postgres 0.00 (0.00 to 0.00) 0.00 (0.00 to 0.00) –\n")
	require.Contains(t, text, "64×16, µs of the server: at most 0.85: met with 0.80\n")
	require.Contains(t, text, "64×16, µs of both: at most 0.80: missed with 1.00\n")
	require.Contains(t, text, "64×1, µs of the server: at most 0.90: met with 0.90\n")
	r.Base = "0123456789abcdef"
	b.Reset()
	r.Write(&b)
	require.Contains(t, b.String(), "base is 0123456789ab,")
	require.NotContains(t, b.String(), "goals", "goals are about Recorded")
}
