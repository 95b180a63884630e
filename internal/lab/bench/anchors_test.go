package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/load"
)

// anchorsFile is the data file of loadtest anchors.
const anchorsFile = "performance/anchors.json"

// loadAnchors reads the data of loadtest anchors. It returns nil if there is none.
func loadAnchors(docs string) (*anchors.Report, error) {
	b, err := os.ReadFile(filepath.Join(docs, anchorsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(anchors.Report)
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", anchorsFile, err)
	}
	return r, nil
}

// anchorsTable returns the table of medians for all servers.
func anchorsTable(r *anchors.Report) string {
	if r == nil {
		return notMeasured
	}
	return r.Brief().Markdown()
}

// anchorsSection returns the section with all results.
func anchorsSection(r *anchors.Report) string {
	text := fmt.Sprintf("%d rounds in turns on %s, with client, servers and Postgres on it; %s, revision %s. Every reply "+
		"is compared with the one that is expected, and each server is asked afterwards how many writes it has. At a rate, "+
		"latency counts from when a request was due.\n\n    %s\n\n%s\n", r.Rounds, r.Machine, r.Began.Format("2006-01-02"),
		r.Revision, r.Command, r.Table().Markdown())
	for _, s := range r.Servers {
		text += fmt.Sprintf("- %s: %s\n", s.Name, s.Durable)
	}
	return text + "\n![anchors](../performance/anchors.svg)\n"
}

// drawAnchors writes the plot next to the data, if there is data.
func drawAnchors(docs string, r *anchors.Report) error {
	if r == nil {
		return nil
	}
	f, err := anchorsFigure(r)
	if err != nil {
		return fmt.Errorf("bench: plot anchors: %w", err)
	}
	return WriteFile(filepath.Join(docs, filepath.Dir(anchorsFile), f.Name+".svg"), f.Write)
}

// anchorsFigure draws each server's rate relative to Redis's, with a bar for each load.
func anchorsFigure(r *anchors.Report) (Figure, error) {
	p := newPlot("Durable requests a second, Redis = 1", "median of the rounds", "")
	shares := map[anchors.Shape]plotter.Values{}
	var loads []anchors.Shape
	for _, row := range r.Rows() {
		if row.Open {
			continue
		}
		if !slices.Contains(loads, row.At) {
			loads = append(loads, row.At)
		}
		shares[row.At] = append(shares[row.At], row.OfRedis.Median)
	}
	const thick = 12
	for i, at := range loads {
		bars, err := plotter.NewBarChart(shares[at], vg.Points(thick))
		if err != nil {
			return Figure{}, err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, palette[i%len(palette)], 0
		bars.Offset = vg.Points(thick * (float64(len(loads)-1)/2 - float64(i)))
		p.Add(bars)
		p.Legend.Add(at.String(), []plot.Thumbnailer{bars}...)
	}
	var names []string
	for _, s := range r.Servers {
		names = append(names, s.Name)
	}
	p.NominalY(names...)
	return Figure{"anchors", p}, nil
}

func TestAnchorsAreATableAndAPlot(t *testing.T) {
	docs := t.TempDir()
	none, err := loadAnchors(docs)
	require.NoError(t, err)
	require.Equal(t, notMeasured, anchorsTable(none))
	require.NoError(t, drawAnchors(docs, none))

	r := &anchors.Report{Machine: "a machine", Revision: "abc", Rounds: 3,
		Servers: []anchors.About{{Name: "redis", Durable: "always"}, {Name: "outcry"}}}
	for _, p := range []struct {
		server string
		depth  int
		rate   float64
	}{{"redis", 1, 2000}, {"outcry", 1, 3000}, {"redis", 16, 8000}, {"outcry", 16, 2000}} {
		r.Points = append(r.Points, &anchors.Point{Server: p.server, Round: 1,
			At: anchors.Shape{Connections: 64, Depth: p.depth}, Summary: load.Summary{Rate: p.rate, P50: 1, P99: 2, Max: 3},
			ServerCPU: 4, PostgresCPU: 5, ClientCPU: 6})
	}
	require.NoError(t, os.Mkdir(filepath.Join(docs, "performance"), 0o700))
	b, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(docs, anchorsFile), b, 0o600))
	got, err := loadAnchors(docs)
	require.NoError(t, err)
	require.Contains(t, anchorsTable(got),
		"| outcry | 3,000 | 1.50 | – | 1.00 | 2.00 | 2,000 | 0.25 | – | 1.00 | 2.00 |\n")
	text := anchorsSection(got)
	require.Contains(t, text, "| 64×1 | outcry | 3,000 (3,000 to 3,000) | 1.50 (1.50 to 1.50) | – | 1.00 | 2.00 | 3.0 | "+
		"4.0, 5.0, 6.0 | 0.0 |\n")
	require.Contains(t, text, "3 rounds in turns on a machine, with")
	require.Contains(t, text, "- redis: always\n")
	require.NoError(t, drawAnchors(docs, got))
	svg, err := os.ReadFile(filepath.Join(docs, "performance", "anchors.svg"))
	require.NoError(t, err)
	require.Contains(t, wellFormed(t, svg), "outcry")
}
