package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// null is an exchange that does nothing.
type null struct{}

func (null) Execute(_ context.Context, _ []exchange.Command, results []exchange.Result) (uint64, error) {
	clear(results)
	return 1, nil
}

func (null) Recall(context.Context, *exchange.Command, *exchange.Result) {}

func (null) Durable(context.Context, uint64) error { return nil }

func (null) Notify(_ uint64, wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

const order = `<?xml version="1.0" encoding="UTF-8"?><transactions id="1"><order sym="SPY" amount="100" limit="145.67"/></transactions>`

// BenchmarkRoundTrip is one order and its reply over loopback, with an exchange that
// does nothing: what the gateway and the protocol cost.
func BenchmarkRoundTrip(b *testing.B) { benchmarkPipelined(b, 1) }

// BenchmarkPipelined16 sends 16 orders in one write; a turn is all 16.
func BenchmarkPipelined16(b *testing.B) { benchmarkPipelined(b, 16) }

func benchmarkPipelined(b *testing.B, frames int) {
	l := listen(b)
	start(b, l, null{}, Options{})
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	b.Cleanup(func() { conn.Close() })
	requests := []byte(strings.Repeat(frame(order), frames))
	replies := make([]byte, frames*len(frame(`<results><opened sym="SPY" amount="100" limit="145.67" id="0"/></results>`)))
	in := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(requests); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(in, replies); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnswer is the same order without a connection.
func BenchmarkAnswer(b *testing.B) {
	s := New(null{}, Options{})
	xml := []byte(order)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Answer(b.Context(), xml, func([]byte) {}); err != nil {
			b.Fatal(err)
		}
	}
}
