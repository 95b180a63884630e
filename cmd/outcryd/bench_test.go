package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/load"
	"outcry/internal/testing/processes"
)

// BenchmarkOneOrderEndToEnd places orders over TCP, one at a time and 16 pipelined. Each order is answered once it
// is synced to stable storage; Postgres follows.
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

// BenchmarkOrdersByDoor places orders that execute, alternating buys and sells, over XML and over WebSocket. Both kinds
// of client cost the same: they send prepared bytes and count replies. ns/op is the time per order over all clients.
func BenchmarkOrdersByDoor(b *testing.B) {
	const clients = 16
	for _, depth := range []int{2, 16} {
		for _, d := range []struct {
			name string
			dial func(t testing.TB, p *program, depth int) (send, receive func() error)
		}{{"xml", xmlTrader}, {"websocket", websocketTrader}} {
			b.Run(fmt.Sprintf("%s/clients=%d/pipelined=%d", d.name, clients, depth), func(b *testing.B) {
				flags, _ := dataFlags(b)
				p := start(b, append(flags, "--segment=67108864")...)
				dial(b, p.xml).must(b, `<create><account id="2" balance="1000000000"/>`+
					`<symbol sym="S"><account id="2">1000000000</account></symbol></create>`)
				benchmarkDoor(b, p, clients, depth, d.dial)
			})
		}
	}
}

// xmlTrader connects a client that sends depth orders at once.
func xmlTrader(t testing.TB, p *program, depth int) (send, receive func() error) {
	var frames []byte
	for n := range depth {
		frames = wire.AppendFrame(frames,
			fmt.Appendf(nil, `<transactions id="2"><order sym="S" amount="%d" limit="1"/></transactions>`, 1-n%2*2))
	}
	c := dial(t, p.xml)
	return func() error { _, err := c.Write(frames); return err },
		func() error { _, err := c.r.Next(); return err }
}

// websocketTrader connects a client that sends depth orders at once over WebSocket.
func websocketTrader(t testing.TB, p *program, depth int) (send, receive func() error) {
	var messages []string
	for n := range depth {
		messages = append(messages, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"order.place","params":{"account":"2",`+
			`"sym":"S","amount":"%d","limit":"1"}}`, n, 1-n%2*2))
	}
	frames := socketFrames(messages)
	c, err := load.DialSocket(context.Background(), p.http, "")
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	var to [4096]byte
	return func() error { _, err := c.Write(frames); return err }, func() error {
		for {
			_, n, err := c.Next(to[:])
			switch {
			case err != nil || bytes.Contains(to[:n], []byte(`"result"`)):
				return err
			case n > 0: // a ping has an empty payload
				return fmt.Errorf("answered %s", to[:n])
			}
		}
	}
}

// benchmarkDoor has each client send a batch of depth orders and receive their replies, in a loop.
func benchmarkDoor(b *testing.B, p *program, clients, depth int,
	dial func(t testing.TB, p *program, depth int) (send, receive func() error)) {
	var running sync.WaitGroup
	batches := make(chan struct{}, clients)
	errs := make(chan error, clients)
	for range clients {
		send, receive := dial(b, p, depth)
		running.Go(func() {
			for range batches {
				err := send()
				for n := 0; n < depth && err == nil; n++ {
					err = receive()
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	before, err := processes.Of(p.cmd.Process.Pid)
	require.NoError(b, err)
	b.ResetTimer()
	for n := 0; n < b.N; n += depth {
		select {
		case batches <- struct{}{}:
		case err := <-errs:
			b.Fatal(err)
		}
	}
	close(batches)
	running.Wait()
	b.StopTimer()
	require.Empty(b, errs)
	after, err := processes.Of(p.cmd.Process.Pid)
	require.NoError(b, err)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	b.ReportMetric((after.CPU-before.CPU).Seconds()*1e6/float64(b.N), "server-µs/order")
}

// number gives each order in frames a new ref.
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
