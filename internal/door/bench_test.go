package door

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// null is an exchange that does nothing.
type null struct{}

func (null) Mark() engine.Mark { return engine.Mark{} }

func (null) NewOrigin() *engine.Origin { return nil }
func (null) EndOrigin(*engine.Origin)  {}
func (null) Execute(_ context.Context, _ []engine.Request, results []exchange.Result) (engine.Mark, error) {
	clear(results)
	return engine.Mark{Seq: 1}, nil
}

func (null) Recall(context.Context, *engine.Request, *exchange.Result, int) {}
func (null) Ready(commands []engine.Request) int                            { return len(commands) }

func (null) Durable(context.Context, engine.Mark) error { return nil }

func (null) IsDurable(engine.Mark) bool { return true }

func (null) Notify(_ engine.Mark, wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

const order = `<?xml version="1.0" encoding="UTF-8"?><transactions id="1">` +
	`<order sym="SPY" amount="100" limit="145.67"/></transactions>`

// BenchmarkRoundTrip measures one order and its reply over loopback with an exchange that does nothing: only the
// cost of the session and the protocol.
func BenchmarkRoundTrip(b *testing.B) { benchmarkPipelined(b, 1) }

// BenchmarkPipelined16 sends 16 orders in one write, which count as one operation.
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

// BenchmarkRoundTripProtected is BenchmarkRoundTrip plain, with a token, and with TLS, to compare their
// costs.
func BenchmarkRoundTripProtected(b *testing.B) {
	for _, way := range []struct {
		name      string
		auth, tls bool
	}{{name: "plain"}, {name: "auth", auth: true}, {name: "tls", tls: true}, {name: "auth+tls", auth: true, tls: true}} {
		for _, frames := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/frames=%d", way.name, frames), func(b *testing.B) {
				l, o := listen(b), Options{}
				hello, dialing := "", dial
				if way.tls {
					var config *tls.Config
					o.TLS, config, _ = secured(b, false)
					dialing = func(t testing.TB, l net.Listener) *client { return dialTLS(t, l, config) }
				}
				if way.auth {
					k := newKeyring(b)
					token, _ := k.add("account:1", time.Time{})
					o.Tokens, hello = k.tokens, authFrame(token)
				}
				start(b, l, null{}, o)
				c := dialing(b, l)
				require.NoError(b, c.SetDeadline(time.Time{}))
				if way.auth {
					c.send(hello)
					require.Equal(b, taken, c.reply())
				}
				requests := []byte(strings.Repeat(frame(order), frames))
				replies := make([]byte, frames*len(frame(`<results><opened sym="SPY" amount="100" limit="145.67" id="0"/>`+
					`</results>`)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Write(requests); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c.in, replies); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAnswer executes the same order without a connection.
func BenchmarkAnswer(b *testing.B) {
	s := New(null{}, Options{})
	xml := []byte(order)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Answer(b.Context(), xmlCodec, xml, func([]byte) {}); err != nil {
			b.Fatal(err)
		}
	}
}
