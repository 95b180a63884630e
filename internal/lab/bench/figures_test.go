package bench

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"outcry/internal/lab/load"
)

const (
	width       = 20 * vg.Centimeter
	height      = 11 * vg.Centimeter
	legendWidth = 5.5 * vg.Centimeter // the legend is next to the plot, so that it hides nothing
)

// palette distinguishes lines, also for most people with color blindness (Okabe and Ito, Color Universal
// Design).
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{0, 0, 0, 255},
}

// Figure is a plot to be drawn.
type Figure struct {
	Name string // file name without .svg
	plot *plot.Plot
}

// item is a part of a plot with its own entry in the legend.
type item struct {
	name  string
	drawn []plot.Plotter
	key   []plot.Thumbnailer
}

// charts are all plots. draw returns the items of a plot, or none if its scenarios were not measured. It may change
// the axes and the title.
var charts = []struct {
	name, title, x, y string
	draw              func(*Data, *plot.Plot) ([]item, error)
}{
	{"cores", "Throughput against processors of the server", "GOMAXPROCS", "requests/s", overCores},
	{"clients", "Five kinds of requests: throughput against clients", "clients, one request at a time each", "requests/s",
		againstClients(map[string]string{"mix5": "mix5, ", "mix5-persistent": "mix5-persistent, "})},
	{"connect", "A connection for each request: throughput against clients", "clients at once", "requests/s",
		againstClients(map[string]string{"burst": "burst, ", "accounts": "accounts, "})},
	{"latency", "Latency, GOMAXPROCS 2, median of the repetitions", "percentile", "ms", percentiles},
	{"cpu", "Processor time of a request, GOMAXPROCS 2", "µs", "", processorTime},
	{"soak-latency", "Latency over time", "seconds", "ms", latencyOverTime},
	{"soak-memory", "Resident memory of the server over time", "seconds", "MiB", memoryOverTime},
}

// Figures returns the plots whose scenarios were measured.
func (d *Data) Figures() (all []Figure, err error) {
	for _, c := range charts {
		p := newPlot(c.title, c.x, c.y)
		items, err := c.draw(d, p)
		if err != nil {
			return nil, fmt.Errorf("bench: plot %s: %w", c.name, err)
		}
		for _, i := range items {
			p.Add(i.drawn...)
			p.Legend.Add(i.name, i.key...)
		}
		if len(items) > 0 {
			all = append(all, Figure{c.name, p})
		}
	}
	return all, nil
}

// Write writes the figure as SVG. It returns w's error.
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

// logarithmic makes an axis logarithmic, with readable ticks.
func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = plot.LogTicks{Prec: -1}
}

// label returns a labeled tick.
func label(at float64, text string) plot.Tick { return plot.Tick{Value: at, Label: text} }

// series is a line with error bars.
type series struct {
	name string
	plotter.XYs
	plotter.YErrors
}

// rates draws the throughput of the data's cells with points and error bars. place returns the line that
// a cell belongs to and its x value; "" leaves the cell out.
func (d *Data) rates(place func(Cell) (line string, x float64)) (items []item, err error) {
	var all []*series
	for _, c := range d.Cells() {
		name, x := place(c)
		if name == "" {
			continue
		}
		at := slices.IndexFunc(all, func(s *series) bool { return s.name == name })
		if at < 0 {
			at, all = len(all), append(all, &series{name: name})
		}
		s, y := all[at], c.Of(func(p *Point) float64 { return p.Rate })
		s.XYs = append(s.XYs, plotter.XY{X: x, Y: y.Median})
		s.YErrors = append(s.YErrors, struct{ Low, High float64 }{y.Median - y.Min, y.Max - y.Median})
	}
	for i, s := range all {
		line, points, err := plotter.NewLinePoints(s.XYs)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(s)
		if err != nil {
			return nil, err
		}
		c := palette[i%len(palette)]
		line.Color, points.Color, bars.Color = c, c, c
		line.Width = vg.Points(1.5)
		points.Shape = draw.CircleGlyph{}
		items = append(items, item{s.name, []plot.Plotter{line, points, bars}, []plot.Thumbnailer{line, points}})
	}
	return items, nil
}

// overCores draws throughput by the server's number of processors.
func overCores(d *Data, p *plot.Plot) ([]item, error) {
	shown := []string{"cores 1 client", "mix5 2 clients", "query81 81 clients", "market 64 clients",
		"market 64 clients × 16", "hot 64 clients × 16", "accounts 5000 clients"}
	logarithmic(&p.Y)
	p.X.Tick.Marker = plot.ConstantTicks{label(1, "1"), label(2, "2"), label(3, "3"), label(4, "4")}
	return d.rates(func(c Cell) (string, float64) {
		if name := c.Scenario + " " + c.Variant; slices.Contains(shown, name) {
			return name, float64(c.GOMAXPROCS)
		}
		return "", 0
	})
}

// againstClients draws the throughput of scenarios by the number of clients. scenarios maps a scenario to
// the prefix of its lines' names.
func againstClients(scenarios map[string]string) func(*Data, *plot.Plot) ([]item, error) {
	return func(d *Data, p *plot.Plot) ([]item, error) {
		logarithmic(&p.X)
		return d.rates(func(c Cell) (string, float64) {
			prefix, ok := scenarios[c.Scenario]
			if !ok {
				return "", 0
			}
			return fmt.Sprintf("%sGOMAXPROCS %d", prefix, c.GOMAXPROCS), float64(c.Points[0].Params.Clients)
		})
	}
}

// addLine adds a line in the next color.
func addLine(items []item, name string, xys plotter.XYs) ([]item, error) {
	line, err := plotter.NewLine(xys)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = palette[len(items)%len(palette)], vg.Points(1.5)
	return append(items, item{name, []plot.Plotter{line}, []plot.Thumbnailer{line}}), nil
}

// percentiles draws latency curves. From each mark to the next, ten times fewer requests take longer.
func percentiles(d *Data, p *plot.Plot) (items []item, err error) {
	logarithmic(&p.X)
	logarithmic(&p.Y)
	p.X.Tick.Marker = plot.ConstantTicks{label(1, "0"), label(2, "50"), label(10, "90"), label(100, "99"),
		label(1000, "99.9"), label(10000, "99.99")}
	shown := []string{"cores 1 client", "mix5 20 clients", "mix5-persistent 200 clients", "query81 81 clients",
		"market 64 clients", "market 64 clients × 16", "deep 64 clients"}
	for _, c := range d.Cells() {
		name := c.Scenario + " " + c.Variant
		if c.GOMAXPROCS != 2 || !slices.Contains(shown, name) {
			continue
		}
		var xys plotter.XYs
		for i, q := range load.Quantiles {
			if c.Points[0].Requests < uint64(10/(1-q)) {
				break // too few requests for this quantile
			}
			xys = append(xys, plotter.XY{X: 1 / (1 - q), Y: c.Of(func(p *Point) float64 { return p.Curve[i] }).Median})
		}
		if items, err = addLine(items, name, xys); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// processorTime draws how the processor time of a request is divided, at two processors.
func processorTime(d *Data, p *plot.Plot) (items []item, err error) {
	var names []string
	values := make([]plotter.Values, 3)
	for _, c := range d.Cells() {
		if c.GOMAXPROCS != 2 {
			continue
		}
		names = append(names, c.Scenario+" "+c.Variant)
		for i, figure := range []func(*Point) float64{
			func(p *Point) float64 { return p.ServerCPU }, func(p *Point) float64 { return p.PostgresCPU },
			func(p *Point) float64 { return p.ClientCPU },
		} {
			values[i] = append(values[i], c.Of(figure).Median)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var below *plotter.BarChart
	for i, name := range []string{"server", "Postgres", "client"} {
		bars, err := plotter.NewBarChart(values[i], vg.Points(7))
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
		items = append(items, item{name, []plot.Plotter{bars}, []plot.Thumbnailer{bars}})
	}
	p.NominalY(names...)
	p.Y.Tick.Label.Font.Size = vg.Points(8)
	p.Y.Padding = vg.Centimeter // fonts differ in width
	return items, nil
}

// latencyOverTime draws the latency of a soak.
func latencyOverTime(d *Data, p *plot.Plot) ([]item, error) {
	logarithmic(&p.Y)
	if d.Soak != nil {
		p.Title.Text += fmt.Sprintf(" at %d requests/s", d.Soak.Rate)
	}
	return d.Soak.overTime([]string{"longest", "p99", "p50"}, func(x Sample) []float64 {
		return []float64{x.Max, x.P99, x.P50}
	})
}

// memoryOverTime draws the memory of a soak's server.
func memoryOverTime(d *Data, p *plot.Plot) ([]item, error) {
	p.Y.Min = 0
	return d.Soak.overTime([]string{"resident memory"}, func(x Sample) []float64 {
		return []float64{mega(x.Resident)}
	})
}

// overTime draws figures of a soak over time, or nothing if there was no soak.
func (s *Soak) overTime(names []string, figures func(Sample) []float64) (items []item, err error) {
	if s == nil {
		return nil, nil
	}
	for n, name := range names {
		var xys plotter.XYs
		for _, x := range s.Samples {
			if y := figures(x)[n]; y > 0 {
				xys = append(xys, plotter.XY{X: x.Second, Y: y})
			}
		}
		if items, err = addLine(items, name, xys); err != nil {
			return nil, err
		}
	}
	return items, nil
}
