// Package plots draws the figures of a sweep and of a soak as SVG.
package plots

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"outcry/loadtest/soak"
	"outcry/loadtest/sweep"
)

const (
	width       = 20 * vg.Centimeter
	height      = 11 * vg.Centimeter
	legendWidth = 5.5 * vg.Centimeter // beside the plot, where it hides nothing
)

// palette tells lines apart, also for most who do not see colors well (Okabe and
// Ito, Color Universal Design).
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 0, 0, 255},
}

// Figure is one plot that is to be drawn.
type Figure struct {
	Name string // of the file, without .svg
	plot *plot.Plot
}

// Figures returns the plots of a sweep, and of a soak where there is one. Those whose
// scenarios were not measured are left out.
func Figures(r *sweep.Report, s *soak.Report) (all []Figure, err error) {
	for _, f := range []struct {
		name string
		draw func(*sweep.Report) (*plot.Plot, error)
	}{
		{"cores", overCores}, {"clients", overClients}, {"connect", overConnects}, {"latency", percentiles}, {"cpu", processorTime},
	} {
		p, err := f.draw(r)
		if err != nil {
			return nil, fmt.Errorf("plots: %s: %w", f.name, err)
		}
		if p != nil {
			all = append(all, Figure{f.name, p})
		}
	}
	if s == nil {
		return all, nil
	}
	for name, draw := range map[string]func(*soak.Report) (*plot.Plot, error){"soak-latency": latencyOverTime, "soak-memory": memoryOverTime} {
		p, err := draw(s)
		if err != nil {
			return nil, fmt.Errorf("plots: %s: %w", name, err)
		}
		all = append(all, Figure{name, p})
	}
	return all, nil
}

// Write writes the figure as SVG. The error is w's.
func (f Figure) Write(w io.Writer) error {
	svg := vgsvg.New(width, height)
	c := draw.New(svg)
	legend := f.plot.Legend
	f.plot.Legend = plot.NewLegend()
	f.plot.Draw(draw.Crop(c, 0, -legendWidth, 0, 0))
	f.plot.Legend = legend
	legend.Draw(draw.Crop(c, width-legendWidth+0.6*vg.Centimeter, 0, 0, -vg.Centimeter))
	_, err := svg.WriteTo(w)
	return err
}

// WriteFile writes the figure into dir.
func (f Figure) WriteFile(dir string) error {
	file, err := os.Create(filepath.Join(dir, f.Name+".svg"))
	if err != nil {
		return fmt.Errorf("plots: %w", err)
	}
	if err := f.Write(file); err != nil {
		file.Close()
		return fmt.Errorf("plots: %w", err)
	}
	return file.Close()
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Millimeter
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.X.Tick.Marker, p.Y.Tick.Marker = whole{}, whole{}
	p.Add(plotter.NewGrid())
	return p
}

// whole labels ticks with whole numbers.
type whole struct{}

// Ticks implements plot.Ticker.
func (whole) Ticks(min, max float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(min, max)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64)
		}
	}
	return ticks
}

// logarithmic gives an axis a logarithmic scale with ticks that are readable.
func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = plot.LogTicks{Prec: -1}
}

// series is a line with error bars.
type series struct {
	plotter.XYs
	plotter.YErrors
}

func (s *series) add(x float64, y sweep.Spread) {
	s.XYs = append(s.XYs, plotter.XY{X: x, Y: y.Median})
	s.YErrors = append(s.YErrors, struct{ Low, High float64 }{y.Median - y.Min, y.Max - y.Median})
}

// addSeries draws lines with points and error bars, in the order of their names.
func addSeries(p *plot.Plot, names []string, all map[string]*series) error {
	for i, name := range names {
		s := all[name]
		line, points, err := plotter.NewLinePoints(s.XYs)
		if err != nil {
			return err
		}
		bars, err := plotter.NewYErrorBars(s)
		if err != nil {
			return err
		}
		c := palette[i%len(palette)]
		line.Color, points.Color, bars.Color = c, c, c
		line.Width = vg.Points(1.5)
		points.Shape = draw.CircleGlyph{}
		p.Add(line, points, bars)
		p.Legend.Add(name, line, points)
	}
	return nil
}

// lines collects a figure of the report's cells: which line a cell belongs to, ""
// for none, and where on it.
func lines(r *sweep.Report, place func(sweep.Cell) (line string, x float64), figure func(*sweep.Point) float64) (names []string, all map[string]*series) {
	all = map[string]*series{}
	for _, c := range r.Cells() {
		name, x := place(c)
		if name == "" {
			continue
		}
		if all[name] == nil {
			all[name] = &series{}
			names = append(names, name)
		}
		all[name].add(x, c.Of(figure))
	}
	return names, all
}

func rate(p *sweep.Point) float64 { return p.Rate }

// overCores draws throughput against the server's processors.
func overCores(r *sweep.Report) (*plot.Plot, error) {
	shown := []string{"cores 1 client", "mix5 20 clients", "query81 81 clients", "market 64 clients", "market 64 clients × 16", "hot 64 clients × 16"}
	names, all := lines(r, func(c sweep.Cell) (string, float64) {
		name := c.Scenario + " " + c.Variant
		if !slices.Contains(shown, name) {
			return "", 0
		}
		return name, float64(c.GOMAXPROCS)
	}, rate)
	if len(names) == 0 {
		return nil, nil
	}
	p := newPlot("Throughput against processors of the server", "GOMAXPROCS", "requests/s")
	logarithmic(&p.Y)
	p.X.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 1, Label: "1"}, {Value: 2, Label: "2"}, {Value: 4, Label: "4"}})
	return p, addSeries(p, names, all)
}

// overClients draws the throughput of mix5 against its clients.
func overClients(r *sweep.Report) (*plot.Plot, error) {
	names, all := lines(r, func(c sweep.Cell) (string, float64) {
		if c.Scenario != "mix5" {
			return "", 0
		}
		return fmt.Sprintf("GOMAXPROCS %d", c.GOMAXPROCS), float64(c.Points[0].Params.Clients)
	}, rate)
	if len(names) == 0 {
		return nil, nil
	}
	p := newPlot("mix5: throughput against clients", "clients, one request at a time each", "requests/s")
	logarithmic(&p.X)
	return p, addSeries(p, names, all)
}

// overConnects draws the throughput of the scenarios with a connection for each
// request against their clients.
func overConnects(r *sweep.Report) (*plot.Plot, error) {
	names, all := lines(r, func(c sweep.Cell) (string, float64) {
		if c.Scenario != "burst" && c.Scenario != "accounts" {
			return "", 0
		}
		return fmt.Sprintf("%s, GOMAXPROCS %d", c.Scenario, c.GOMAXPROCS), float64(c.Points[0].Params.Clients)
	}, rate)
	if len(names) == 0 {
		return nil, nil
	}
	p := newPlot("A connection for each request: throughput against clients", "clients at once", "requests/s")
	logarithmic(&p.X)
	return p, addSeries(p, names, all)
}

// percentiles draws latency curves: to the right of each mark, ten times fewer
// requests take longer.
func percentiles(r *sweep.Report) (*plot.Plot, error) {
	p := newPlot("Latency, GOMAXPROCS 2, median of the repetitions", "percentile", "ms")
	logarithmic(&p.X)
	logarithmic(&p.Y)
	p.X.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 1, Label: "0"}, {Value: 2, Label: "50"}, {Value: 10, Label: "90"}, {Value: 100, Label: "99"},
		{Value: 1000, Label: "99.9"}, {Value: 10000, Label: "99.99"}})
	shown := []string{"cores 1 client", "mix5 20 clients", "mix5 200 clients", "query81 81 clients", "market 64 clients", "market 64 clients × 16", "deep 64 clients"}
	drawn := 0
	for _, c := range r.Cells() {
		name := c.Scenario + " " + c.Variant
		if c.GOMAXPROCS != 2 || !slices.Contains(shown, name) {
			continue
		}
		var xys plotter.XYs
		for i, q := range sweep.Quantiles {
			if c.Points[0].Requests < uint64(10/(1-q)) {
				break // too few requests to tell
			}
			xys = append(xys, plotter.XY{X: 1 / (1 - q), Y: c.Of(func(p *sweep.Point) float64 { return p.Curve[i] }).Median})
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = palette[drawn%len(palette)], vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(name, line)
		drawn++
	}
	if drawn == 0 {
		return nil, nil
	}
	return p, nil
}
