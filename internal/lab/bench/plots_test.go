package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

func report() *Data {
	r := &Data{}
	for _, name := range []string{"mix5", "burst", "accounts", "market"} {
		for clients := 10; clients <= 1000; clients *= 10 {
			for procs := 1; procs <= 4; procs *= 2 {
				for rep := range 3 {
					p := &Point{Scenario: name, Params: scenario.Params{Clients: clients + 10}, GOMAXPROCS: procs,
						Summary: load.Summary{Requests: 1 << 20, Rate: float64(1000*procs + rep)}, ServerCPU: 5, PostgresCPU: 2,
						ClientCPU: 3}
					for i := range load.Quantiles {
						p.Curve = append(p.Curve, float64(i+1))
					}
					r.Points = append(r.Points, p)
				}
			}
		}
	}
	for procs := range 4 {
		r.Points = append(r.Points, &Point{Scenario: "cores", Params: scenario.Params{Clients: 1}, GOMAXPROCS: procs + 1,
			Summary: load.Summary{Rate: float64(procs + 1)}})
	}
	return r
}

func TestEveryFigureIsAnImage(t *testing.T) {
	s := &Soak{Rate: 100}
	for i := range 10 {
		s.Samples = append(s.Samples, Sample{Second: float64(i), Moment: load.Moment{P50: 1, P99: 2, Max: 3},
			Resident: 1 << 20})
	}
	figures, err := report().Figures()
	require.NoError(t, err)
	more, err := (&Data{Soak: s}).Figures()
	require.NoError(t, err)
	figures = append(figures, more...)
	var names []string
	for _, f := range figures {
		names = append(names, f.Name)
		var b bytes.Buffer
		require.NoError(t, f.Write(&b))
		text := wellFormed(t, b.Bytes())
		require.Contains(t, text, f.plot.Title.Text, f.Name)
		require.Contains(t, text, f.plot.X.Label.Text, f.Name)
		require.Greater(t, bytes.Count(b.Bytes(), []byte("<path")), 5, f.Name)
	}
	require.ElementsMatch(t, []string{"cores", "clients", "connect", "latency", "cpu", "soak-latency", "soak-memory"},
		names)
}

func TestWhatWasNotMeasuredIsNotDrawn(t *testing.T) {
	figures, err := (&Data{}).Figures()
	require.NoError(t, err)
	require.Empty(t, figures)
}

// wellFormed parses a document completely and returns its text.
func wellFormed(t *testing.T, document []byte) (text string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(document))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text
		}
		require.NoError(t, err)
		if s, ok := token.(xml.CharData); ok {
			text += string(s)
		}
	}
}
