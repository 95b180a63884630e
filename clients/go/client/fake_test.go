package client

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

var background = context.Background()

// peer is the exchange's end of a connection, which the test controls. Its methods return false once the
// connection has ended.
type peer struct {
	net.Conn
	frames *wire.FrameReader
}

func newPeer(conn net.Conn) *peer { return &peer{conn, wire.NewFrameReader(conn, 1<<20)} }

// readFrame reads a frame.
func (p *peer) readFrame() (xml string, ok bool) {
	frame, err := p.frames.Next()
	return string(frame), err == nil
}

// say writes a reply with answers between <results> and </results>.
func (p *peer) say(answers string) bool {
	return p.write(string(wire.AppendFrame(nil, []byte("<results>"+answers+"</results>"))))
}

func (p *peer) write(bytes string) bool {
	_, err := p.Write([]byte(bytes))
	return err == nil
}

// status returns the answer to a query of the order id.
func status(id string) string { return `<status id="` + id + `"><open shares="5"/></status>` }

// inBubble runs a test with a fake clock. It fails if a goroutine is still running at the end.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// played returns options with a fake dialer. The n-th connection, counted from 1, is handled by the n-th of
// plays, and all further ones by the last. A nil play refuses the connection. The test waits for all plays to
// return.
func played(t *testing.T, o Options, plays ...func(p *peer)) Options {
	n := 0
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait)
	o.dial = func(context.Context, string) (net.Conn, error) {
		n++
		play := plays[min(n, len(plays))-1]
		if play == nil {
			return nil, errNobody
		}
		ours, theirs := net.Pipe()
		playing.Go(func() {
			defer theirs.Close()
			play(newPeer(theirs))
		})
		return ours, nil
	}
	return o
}

var errNobody = &net.OpError{Op: "dial", Net: "tcp", Err: net.UnknownNetworkError("nobody is there")}

// open connects a client and closes it at the end of the test.
func open(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Dial(background, "exchange:1", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// send calls Send, which must not fail.
func send(t *testing.T, c *Client, commands ...Command) *Call {
	t.Helper()
	call, err := c.Send(background, commands...)
	require.NoError(t, err)
	return call
}

// broken waits for a call that must fail, and returns its *Broken error.
func broken(t *testing.T, call *Call) *Broken {
	t.Helper()
	_, err := call.Wait(background)
	var b *Broken
	require.ErrorAs(t, err, &b)
	require.Equal(t, call.Commands(), b.Sent)
	require.Equal(t, b.MaybeDone, MaybeDone(err))
	return b
}

// answered waits for a call that must succeed, and returns its results.
func answered(t *testing.T, call *Call) []Result {
	t.Helper()
	results, err := call.Wait(background)
	require.NoError(t, err)
	return results
}

// buys returns an order without a ref, at the price.
func buys(price int64) Command { return Buy("1", "SPY", Whole(1), Whole(price)) }

// bought returns the answer to buys(price).
func bought(price, id string) string {
	return `<opened sym="SPY" amount="1" limit="` + price + `" id="` + id + `"/>`
}

// frames collects the frames that several peers have read.
type frames struct {
	mu  sync.Mutex
	xml []string
}

func (f *frames) add(xml string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.xml = append(f.xml, xml)
}

func (f *frames) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.xml
}

// silent reads frames and answers none.
func silent(p *peer) {
	for _, ok := p.readFrame(); ok; _, ok = p.readFrame() {
	}
}

// honest answers a short frame as a query of order 7, and a long one as an order with a limit of one dollar.
func honest(p *peer) {
	for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
		answer := status("7")
		if len(xml) > 60 {
			answer = bought("1", "3")
		}
		p.say(answer)
	}
}

func TestRepliesInSmallPiecesAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(p *peer) {
			for range 3 {
				p.readFrame()
				for _, b := range wire.AppendFrame(nil, []byte("<results>"+status("7")+"</results>")) {
					time.Sleep(time.Second / 10)
					p.write(string(b))
				}
			}
		}))
		calls := []*Call{send(t, c, Query("1", 7)), send(t, c, Query("1", 7)), send(t, c, Query("1", 7))}
		for _, call := range calls {
			require.Equal(t, Whole(5), answered(t, call)[0].Status.Open)
		}
	})
}
