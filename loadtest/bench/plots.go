package bench

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

	"outcry/internal/load"
)

const (
	width       = 20 * vg.Centimeter
	height      = 11 * vg.Centimeter
	legendWidth = 5.5 * vg.Centimeter // beside the plot, where it hides nothing
)

// palette tells lines apart, also for most who do not see colors well (Okabe and
// Ito, Color Universal Design).
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 0, 0, 255},
}

// Figure is one plot that is to be drawn.
type Figure struct {
	Name string // of the file, without .svg
	plot *plot.Plot
}

// Figures returns the plots of what was measured. Those whose scenarios were not, are
// left out.
func (d *Data) Figures() (all []Figure, err error) {
	drawn := []struct {
		name string
		draw func(*Data) (*plot.Plot, error)
	}{{"cores", overCores}, {"clients", overClients}, {"connect", overConnects}, {"latency", percentiles},
		{"cpu", processorTime}}
	if d.Soak != nil {
		drawn = append(drawn[:0], drawn[0], drawn[1])
		drawn[0].name, drawn[0].draw = "soak-latency", latencyOverTime
		drawn[1].name, drawn[1].draw = "soak-memory", memoryOverTime
	}
	for _, f := range drawn {
		p, err := f.draw(d)
		if err != nil {
			return nil, fmt.Errorf("bench: plot %s: %w", f.name, err)
		}
		if p != nil {
			all = append(all, Figure{f.name, p})
		}
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
		return fmt.Errorf("bench: %w", err)
	}
	if err := f.Write(file); err != nil {
		file.Close()
		return fmt.Errorf("bench: %w", err)
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

// addRates draws the throughput of the data's cells, with points and error bars: place says
// which line a cell belongs to, "" for none, and where on it. It reports whether there was
// one.
func (d *Data) addRates(p *plot.Plot, place func(Cell) (line string, x float64)) (drawn bool, err error) {
	var names []string
	all := map[string]*series{}
	for _, c := range d.Cells() {
		name, x := place(c)
		if name == "" {
			continue
		}
		if all[name] == nil {
			all[name] = &series{}
			names = append(names, name)
		}
		s, y := all[name], c.Of(func(p *Point) float64 { return p.Rate })
		s.XYs = append(s.XYs, plotter.XY{X: x, Y: y.Median})
		s.YErrors = append(s.YErrors, struct{ Low, High float64 }{y.Median - y.Min, y.Max - y.Median})
	}
	for i, name := range names {
		line, points, err := plotter.NewLinePoints(all[name].XYs)
		if err != nil {
			return false, err
		}
		bars, err := plotter.NewYErrorBars(all[name])
		if err != nil {
			return false, err
		}
		c := palette[i%len(palette)]
		line.Color, points.Color, bars.Color = c, c, c
		line.Width = vg.Points(1.5)
		points.Shape = draw.CircleGlyph{}
		p.Add(line, points, bars)
		p.Legend.Add(name, line, points)
	}
	return len(names) > 0, nil
}

// rates returns a plot of throughput, nil if there is nothing on it.
func (d *Data) rates(p *plot.Plot, place func(Cell) (string, float64)) (*plot.Plot, error) {
	if drawn, err := d.addRates(p, place); err != nil || !drawn {
		return nil, err
	}
	return p, nil
}

// overCores draws throughput against the server's processors.
func overCores(d *Data) (*plot.Plot, error) {
	shown := []string{"cores 1 client", "mix5 20 clients", "query81 81 clients", "market 64 clients",
		"market 64 clients × 16", "hot 64 clients × 16"}
	p := newPlot("Throughput against processors of the server", "GOMAXPROCS", "requests/s")
	logarithmic(&p.Y)
	p.X.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 1, Label: "1"}, {Value: 2, Label: "2"},
		{Value: 4, Label: "4"}})
	return d.rates(p, func(c Cell) (string, float64) {
		if name := c.Scenario + " " + c.Variant; slices.Contains(shown, name) {
			return name, float64(c.GOMAXPROCS)
		}
		return "", 0
	})
}

// overClients draws the throughput of mix5 against its clients.
func overClients(d *Data) (*plot.Plot, error) {
	p := newPlot("mix5: throughput against clients", "clients, one request at a time each", "requests/s")
	logarithmic(&p.X)
	return d.rates(p, func(c Cell) (string, float64) {
		if c.Scenario != "mix5" {
			return "", 0
		}
		return fmt.Sprintf("GOMAXPROCS %d", c.GOMAXPROCS), float64(c.Points[0].Params.Clients)
	})
}

// overConnects draws the throughput of the scenarios with a connection for each
// request against their clients.
func overConnects(d *Data) (*plot.Plot, error) {
	p := newPlot("A connection for each request: throughput against clients", "clients at once", "requests/s")
	logarithmic(&p.X)
	return d.rates(p, func(c Cell) (string, float64) {
		if c.Scenario != "burst" && c.Scenario != "accounts" {
			return "", 0
		}
		return fmt.Sprintf("%s, GOMAXPROCS %d", c.Scenario, c.GOMAXPROCS), float64(c.Points[0].Params.Clients)
	})
}

// addLine draws a line.
func addLine(p *plot.Plot, name string, n int, xys plotter.XYs) error {
	line, err := plotter.NewLine(xys)
	if err != nil {
		return err
	}
	line.Color, line.Width = palette[n%len(palette)], vg.Points(1.5)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// percentiles draws latency curves: to the right of each mark, ten times fewer
// requests take longer.
func percentiles(d *Data) (*plot.Plot, error) {
	p := newPlot("Latency, GOMAXPROCS 2, median of the repetitions", "percentile", "ms")
	logarithmic(&p.X)
	logarithmic(&p.Y)
	p.X.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 1, Label: "0"}, {Value: 2, Label: "50"},
		{Value: 10, Label: "90"},
		{Value: 100, Label: "99"}, {Value: 1000, Label: "99.9"}, {Value: 10000, Label: "99.99"}})
	shown := []string{"cores 1 client", "mix5 20 clients", "mix5 200 clients", "query81 81 clients", "market 64 clients",
		"market 64 clients × 16", "deep 64 clients"}
	drawn := 0
	for _, c := range d.Cells() {
		name := c.Scenario + " " + c.Variant
		if c.GOMAXPROCS != 2 || !slices.Contains(shown, name) {
			continue
		}
		var xys plotter.XYs
		for i, q := range load.Quantiles {
			if c.Points[0].Requests < uint64(10/(1-q)) {
				break // too few requests to tell
			}
			xys = append(xys, plotter.XY{X: 1 / (1 - q), Y: c.Of(func(p *Point) float64 { return p.Curve[i] }).Median})
		}
		if err := addLine(p, name, drawn, xys); err != nil {
			return nil, err
		}
		drawn++
	}
	if drawn == 0 {
		return nil, nil
	}
	return p, nil
}

// processorTime draws where the processor time of a request goes, at two processors.
func processorTime(d *Data) (*plot.Plot, error) {
	cells := slices.DeleteFunc(d.Cells(), func(c Cell) bool { return c.GOMAXPROCS != 2 })
	if len(cells) == 0 {
		return nil, nil
	}
	p := newPlot("Processor time of a request, GOMAXPROCS 2", "µs", "")
	var below *plotter.BarChart
	for i, part := range []struct {
		name   string
		figure func(*Point) float64
	}{
		{"server", func(p *Point) float64 { return p.ServerCPU }},
		{"Postgres", func(p *Point) float64 { return p.PostgresCPU }},
		{"client", func(p *Point) float64 { return p.ClientCPU }},
	} {
		var values plotter.Values
		for _, c := range cells {
			values = append(values, c.Of(part.figure).Median)
		}
		bars, err := plotter.NewBarChart(values, vg.Points(7))
		if err != nil {
			return nil, err
		}
		bars.Horizontal = true
		bars.LineStyle.Width = 0
		bars.Color = palette[i]
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(part.name, bars)
	}
	var names []string
	for _, c := range cells {
		names = append(names, c.Scenario+" "+c.Variant)
	}
	p.NominalY(names...)
	p.Y.Tick.Label.Font.Size = vg.Points(8)
	p.Y.Padding = vg.Centimeter // fonts differ in width
	return p, nil
}

// latencyOverTime draws the latency of a soak.
func latencyOverTime(d *Data) (*plot.Plot, error) {
	p := newPlot(fmt.Sprintf("Latency over time at %d requests/s", d.Soak.Rate), "seconds", "ms")
	logarithmic(&p.Y)
	return p, d.Soak.overTime(p, []string{"longest", "p99", "p50"}, func(x Sample) []float64 {
		return []float64{x.Max, x.P99, x.P50}
	})
}

// memoryOverTime draws the memory of a soak's server.
func memoryOverTime(d *Data) (*plot.Plot, error) {
	p := newPlot("Resident memory of the server over time", "seconds", "MiB")
	p.Y.Min = 0
	return p, d.Soak.overTime(p, []string{"resident memory"}, func(x Sample) []float64 {
		return []float64{mega(x.Resident)}
	})
}

func (s *Soak) overTime(p *plot.Plot, names []string, figures func(Sample) []float64) error {
	for i, name := range names {
		var xys plotter.XYs
		for _, x := range s.Samples {
			if y := figures(x)[i]; y > 0 {
				xys = append(xys, plotter.XY{X: x.Second, Y: y})
			}
		}
		if err := addLine(p, name, i, xys); err != nil {
			return err
		}
	}
	return nil
}
