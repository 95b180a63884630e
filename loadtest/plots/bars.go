package plots

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"outcry/loadtest/soak"
	"outcry/loadtest/sweep"
)

// processorTime draws where the processor time of a request goes, at two processors.
func processorTime(r *sweep.Report) (*plot.Plot, error) {
	var names []string
	var server, postgres, client plotter.Values
	for _, c := range r.Cells() {
		if c.GOMAXPROCS != 2 {
			continue
		}
		names = append(names, fmt.Sprintf("%s %s", c.Scenario, c.Variant))
		server = append(server, c.Of(func(p *sweep.Point) float64 { return p.ServerCPU }).Median)
		postgres = append(postgres, c.Of(func(p *sweep.Point) float64 { return p.PostgresCPU }).Median)
		client = append(client, c.Of(func(p *sweep.Point) float64 { return p.ClientCPU }).Median)
	}
	if len(names) == 0 {
		return nil, nil
	}
	p := newPlot("Processor time of a request, GOMAXPROCS 2", "µs", "")
	var below *plotter.BarChart
	for i, part := range []struct {
		name   string
		values plotter.Values
	}{{"server", server}, {"Postgres", postgres}, {"client", client}} {
		bars, err := plotter.NewBarChart(part.values, vg.Points(7))
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
	p.NominalY(names...)
	p.Y.Tick.Label.Font.Size = vg.Points(8)
	p.Y.Padding = vg.Centimeter // fonts differ in width
	return p, nil
}

// latencyOverTime draws the latency of a soak.
func latencyOverTime(s *soak.Report) (*plot.Plot, error) {
	p := newPlot(fmt.Sprintf("Latency over time at %d requests/s", s.Rate), "seconds", "ms")
	logarithmic(&p.Y)
	return p, overTime(p, s, []string{"longest", "p99", "p50"}, func(x soak.Sample) []float64 { return []float64{x.Max, x.P99, x.P50} })
}

// memoryOverTime draws the memory of a soak's server.
func memoryOverTime(s *soak.Report) (*plot.Plot, error) {
	p := newPlot("Resident memory of the server over time", "seconds", "MiB")
	p.Y.Min = 0
	return p, overTime(p, s, []string{"resident memory"}, func(x soak.Sample) []float64 { return []float64{float64(x.Resident) / (1 << 20)} })
}

func overTime(p *plot.Plot, s *soak.Report, names []string, figures func(soak.Sample) []float64) error {
	for i, name := range names {
		var xys plotter.XYs
		for _, x := range s.Samples {
			if y := figures(x)[i]; y > 0 {
				xys = append(xys, plotter.XY{X: x.Second, Y: y})
			}
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		line.Color, line.Width = palette[i], vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(name, line)
	}
	return nil
}
