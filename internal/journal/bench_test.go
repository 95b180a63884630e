package journal

import (
	"fmt"
	"testing"
)

func BenchmarkAppend(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{Version: newest})
	record := payload(1, 80)
	b.ReportAllocs()
	for b.Loop() {
		j.Append(record)
	}
}

func BenchmarkAppendAndWait(b *testing.B) {
	for _, appenders := range []int{1, 64} {
		b.Run(fmt.Sprintf("appenders=%d", appenders), func(b *testing.B) {
			j := mustOpen(b, b.TempDir(), Options{Version: newest})
			record := payload(1, 80)
			b.ReportAllocs()
			b.SetParallelism((appenders + 1) / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					seq, _ := j.Append(record)
					j.Wait(background, seq)
				}
			})
		})
	}
}

func BenchmarkRead(b *testing.B) {
	j := mustOpen(b, b.TempDir(), Options{Version: newest})
	fill(b, j, 200_000, 80)
	b.ReportAllocs()
	r, _ := j.NewReader(1)
	for b.Loop() {
		if _, _, ok, _ := r.TryNext(); !ok {
			r.Close()
			r, _ = j.NewReader(1)
		}
	}
	r.Close()
}
