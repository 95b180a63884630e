package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// nodes are fake exchanges at a list of addresses. An address without one, or with nil, refuses connections.
type nodes struct {
	mu      sync.Mutex
	plays   map[string]func(p *peer)
	tries   map[string]int
	playing sync.WaitGroup
}

func playNodes(t *testing.T, plays map[string]func(p *peer)) *nodes {
	n := &nodes{plays: plays, tries: map[string]int{}}
	t.Cleanup(n.playing.Wait)
	return n
}

func (n *nodes) set(addr string, play func(p *peer)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plays[addr] = play
}

func (n *nodes) dial(_ context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tries[addr]++
	play := n.plays[addr]
	if play == nil {
		return nil, errNobody
	}
	ours, theirs := net.Pipe()
	n.playing.Go(func() {
		defer theirs.Close()
		play(newPeer(theirs))
	})
	return ours, nil
}

// openAny opens a client with the addresses a, b and c.
func openAny(t *testing.T, n *nodes, o Options) *Client {
	t.Helper()
	o.dial = n.dial
	c, err := Dial(background, "a,b, c", o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// hangs closes a connection at once without a reply.
func hangs(*peer) {}

// TestTheAddressThatTakesOrdersIsFound: the other addresses are silent, refuse connections, or close them.
func TestTheAddressThatTakesOrdersIsFound(t *testing.T) {
	for _, others := range []func(p *peer){nil, silent, hangs} {
		inBubble(t, func(t *testing.T) {
			var seen frames
			began := time.Now()
			c := openAny(t, playNodes(t, map[string]func(p *peer){"a": others, "b": others, "c": strict(&seen)}), Options{})
			_, err := c.Order(background, buys(1))
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "nobody waits for the others")
			require.Equal(t, []string{probing, harmless}, seen.all())
		})
	}
}

// TestAClusterWithoutALeaderIsWaitedFor: a client waits for a leader, but no longer than RetryTime.
func TestAClusterWithoutALeaderIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := playNodes(t, map[string]func(p *peer){"a": silent})
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			n.set("b", strict(new(frames)))
		}()
		c := openAny(t, n, Options{})
		_, err := c.Query(background, "1", 7)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second+searchPauseMax)
	})
	inBubble(t, func(t *testing.T) {
		n := playNodes(t, map[string]func(p *peer){"a": silent, "b": hangs})
		began := time.Now()
		_, err := Dial(background, "a,b,c", Options{RetryTime: 10 * time.Second, dial: n.dial})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "client: no address accepts orders: ")
		require.ErrorContains(t, err, "nobody is there")
		require.ErrorContains(t, err, "a: no answer within")
		require.Equal(t, 10*time.Second, time.Since(began))
		require.Less(t, n.tries["c"], 1000, "with pauses")
	})
	inBubble(t, func(t *testing.T) {
		n := playNodes(t, map[string]func(p *peer){})
		_, err := Dial(background, "a,b,c", Options{RetryTime: -1, dial: n.dial})
		require.ErrorContains(t, err, "nobody is there")
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, n.tries)
	})
}

// TestAWrongTokenEndsTheSearch, because a retry would fail in the same way.
func TestAWrongTokenEndsTheSearch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		n := playNodes(t, map[string]func(p *peer){"a": silent, "b": func(p *peer) {
			p.readFrame()
			p.write(string(wire.AppendFrame(nil, []byte(notTaken))))
		}})
		_, err := Dial(background, "a,b,c", Options{Token: "t", InsecureToken: true, dial: n.dial})
		require.ErrorAs(t, err, new(*Unauthorized))
		require.Zero(t, time.Since(began))
	})
}

// TestASilentExchangeIsLeftForOneThatAnswers: calls with a ref are resent to the other address; calls without
// a ref are in doubt.
func TestASilentExchangeIsLeftForOneThatAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var first, second frames
		n := playNodes(t, map[string]func(p *peer){"a": func(p *peer) {
			p.readFrame()
			p.say("")
			for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
				first.add(xml)
			}
		}})
		c := openAny(t, n, Options{})
		n.set("b", strict(&second))
		began := time.Now()
		once, again := send(t, c, buys(1)), send(t, c, buys(1).WithRef("r"))
		require.EqualValues(t, 3, answered(t, again)[0].Order)
		require.LessOrEqual(t, time.Since(began), switchTime+switchTime/silentTicks)
		b := broken(t, once)
		require.True(t, b.MaybeDone)
		require.ErrorIs(t, b.Err, errSilent)
		withRef := strings.Replace(harmless, "/>", ` ref="r"/>`, 1)
		require.Equal(t, []string{harmless, withRef}, first.all())
		require.Equal(t, []string{probing, withRef}, second.all())
	})
}

// TestASlowExchangeIsNotLeft: the client waits for a slow exchange while no other address accepts orders. If
// the other addresses lead to the same exchange, the time allowed grows.
func TestASlowExchangeIsNotLeft(t *testing.T) {
	slow := func(seen *frames) func(p *peer) {
		return func(p *peer) {
			for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
				if xml == probing {
					p.say("")
					continue
				}
				seen.add(xml)
				time.Sleep(3 * time.Second)
				p.say(bought("1", "3"))
			}
		}
	}
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := openAny(t, playNodes(t, map[string]func(p *peer){"a": slow(&seen), "b": silent}), Options{})
		require.EqualValues(t, 3, answered(t, send(t, c, buys(1)))[0].Order)
		require.Equal(t, []string{harmless}, seen.all())
	})
	inBubble(t, func(t *testing.T) {
		var seen frames
		same := slow(&seen)
		c := openAny(t, playNodes(t, map[string]func(p *peer){"a": same, "b": same, "c": same}), Options{})
		require.EqualValues(t, 3, answered(t, send(t, c, buys(1).WithRef("r")))[0].Order)
		require.Len(t, seen.all(), 4, "after half a second, one, two, and four")
	})
}

// TestAFrameThatNobodyTakesDoesNotSpin: every address answers the probe and then closes the connection, and
// the client pauses between tries.
func TestAFrameThatNobodyTakesDoesNotSpin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var n atomic.Int64
		play := func(p *peer) {
			p.readFrame()
			p.say("")
			if _, ok := p.readFrame(); ok {
				n.Add(1)
			}
		}
		c := openAny(t, playNodes(t, map[string]func(p *peer){"a": play, "b": play}), Options{})
		b := broken(t, send(t, c, buys(1).WithRef("r")))
		require.True(t, b.MaybeDone)
		require.Less(t, n.Load(), int64(100))
	})
}

func TestAListOfAddressesIsChecked(t *testing.T) {
	_, err := Dial(background, "a:1,,b:2", Options{})
	require.EqualError(t, err, `client: "a:1,,b:2": address 2 of the list is empty`)
	_, err = DialConn(background, strings.Repeat("a:1,", addressesMax)+"b:1", Options{})
	require.EqualError(t, err, fmt.Sprintf("client: %d addresses are over the limit of %d", addressesMax+1, addressesMax))
	require.False(t, errors.As(err, new(*Broken)))
}
