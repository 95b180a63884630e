package client_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
)

// The benchmarks place the same order in three ways, with benchDepth frames in flight on one connection. They
// use the exchange of the examples, which has no database.

const benchDepth = 64

func benchMarket(b *testing.B) {
	c := dial(b, exchangeAddr, client.Options{})
	_, err := c.Do(background, client.OpenAccount("77", number("1e9")), client.MakeSymbol("BENCH"))
	require.NoError(b, err)
}

// BenchmarkClient has 64 goroutines place orders through one Client.
func BenchmarkClient(b *testing.B) {
	benchMarket(b)
	c := dial(b, exchangeAddr, client.Options{Depth: benchDepth})
	shares, limit := number("0.00000001"), number("0.01")
	var next atomic.Int64
	var callers sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range benchDepth {
		callers.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if _, err := c.Buy(background, "77", "BENCH", shares, limit); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// BenchmarkFrames sends the same frames through a Conn and ignores the content of the replies.
func BenchmarkFrames(b *testing.B) { benchmarkFrames(b, func([]byte) error { return nil }) }

// BenchmarkFramesParsed sends the same frames through a Conn and parses the replies.
func BenchmarkFramesParsed(b *testing.B) {
	benchmarkFrames(b, func(reply []byte) error {
		_, err := wire.ParseReply(reply)
		return err
	})
}

func benchmarkFrames(b *testing.B, take func(reply []byte) error) {
	benchMarket(b)
	conn, err := client.DialConn(background, exchangeAddr, client.Options{})
	require.NoError(b, err)
	defer conn.Close()
	frame := wire.NewTransactions("77").Order("BENCH", "0.00000001", "0.01").Append(nil)
	b.ReportAllocs()
	b.ResetTimer()
	sent := 0
	for answered := 0; answered < b.N; {
		for ; sent < b.N && sent < answered+benchDepth; sent++ {
			conn.SendFrame(frame)
		}
		if err := conn.Flush(); err != nil {
			b.Fatal(err)
		}
		for first := true; answered < sent && (first || conn.Buffered()); first = false {
			reply, err := conn.NextReply()
			if err == nil {
				err = take(reply)
			}
			if err != nil {
				b.Fatal(err)
			}
			answered++
		}
	}
}
