package main

import (
	"bytes"
	"fmt"
	"testing"

	"outcry/internal/wire"
)

// BenchmarkOneOrderEndToEnd places orders over TCP, each answered when it is on
// stable storage, with Postgres following; alone, and 16 pipelined.
func BenchmarkOneOrderEndToEnd(b *testing.B) {
	for _, variant := range []struct {
		depth int
		refs  bool
	}{{1, false}, {1, true}, {16, false}, {16, true}} {
		depth := variant.depth
		b.Run(fmt.Sprintf("pipelined=%d/refs=%t", depth, variant.refs), func(b *testing.B) {
			flags, _ := dataFlags(b)
			_, addr := inProcess(b, append(flags, "--segment=67108864")...)
			c := dial(b, addr)
			c.must(b, opening)
			ref := ""
			if variant.refs {
				ref = ` ref="client-7:1234567"`
			}
			var frames []byte
			for range depth {
				frames = wire.AppendFrame(frames,
					[]byte(`<transactions id="1"><order sym="S" amount="0.00000001" limit="1"`+ref+`/></transactions>`))
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if variant.refs {
					number(frames, n*depth)
				}
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

// number makes the refs of frames new ones.
func number(frames []byte, n int) {
	for rest := frames; ; n++ {
		at := bytes.Index(rest, []byte("client-7:"))
		if at < 0 {
			return
		}
		digits := rest[at+len("client-7:"):][:7]
		for i, m := len(digits)-1, n; i >= 0; i, m = i-1, m/10 {
			digits[i] = byte('0' + m%10)
		}
		rest = rest[at+len("client-7:"):]
	}
}
