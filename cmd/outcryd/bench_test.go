package main

import (
	"fmt"
	"testing"

	"outcry/internal/wire"
)

// BenchmarkOneOrderEndToEnd places orders over TCP, each answered when it is on
// stable storage, with Postgres following; alone, and 16 pipelined.
func BenchmarkOneOrderEndToEnd(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipelined=%d", depth), func(b *testing.B) {
			flags, _ := dataFlags(b)
			_, addr := inProcess(b, append(flags, "--segment=67108864")...)
			c := dial(b, addr)
			c.must(b, opening)
			var frames []byte
			for range depth {
				frames = wire.AppendFrame(frames, []byte(`<transactions id="1"><order sym="S" amount="0.00000001" limit="1"/></transactions>`))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(frames); err != nil {
					b.Fatal(err)
				}
				for range depth {
					if _, err := c.r.Next(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*depth)/b.Elapsed().Seconds(), "orders/s")
		})
	}
}
