package client

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOnlyWhatIsSafeIsSentAgain: of the calls that a broken connection did not answer, those that are safe to repeat
// are resent on the next connection, in their order and before later calls. The others get an error that says which
// results are unknown.
func TestOnlyWhatIsSafeIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var again frames
		c := open(t, played(t, Options{}, func(p *peer) {
			for range 7 {
				p.readFrame()
			}
		}, func(p *peer) {
			for _, answer := range []string{bought("1", "1"), status("7"), `<created sym="A"/>`, `<created sym="A" id="3"/>`,
				status("8")} {
				xml, _ := p.readFrame()
				again.add(xml)
				p.say(answer)
			}
		}))
		ref := send(t, c, buys(1).WithRef("r1"))
		query := send(t, c, Query("1", 7))
		bare := send(t, c, buys(2))
		symbol := send(t, c, MakeSymbol("A"))
		mixed := send(t, c, Query("1", 7), Cancel("1", 8))
		placed := send(t, c, Place("A", "3", Whole(5)).WithRef("r2"))
		half := send(t, c, buys(3).WithRef("r3"), buys(4))
		lost := broken(t, bare)
		require.True(t, lost.MaybeDone)
		require.ErrorIs(t, lost.Err, errHungUp)
		later := send(t, c, Query("1", 8))
		require.True(t, broken(t, mixed).MaybeDone, "a cancel that is sent again has another answer")
		require.True(t, broken(t, half).MaybeDone)
		require.EqualValues(t, 1, answered(t, ref)[0].Order)
		for _, call := range []*Call{query, symbol, placed, later} {
			require.Nil(t, answered(t, call)[0].Refused)
		}
		require.Equal(t, []string{
			`<transactions id="1"><order sym="SPY" amount="1" limit="1" ref="r1"/></transactions>`,
			`<transactions id="1"><query id="7"/></transactions>`,
			`<create><symbol sym="A"></symbol></create>`,
			`<create><symbol sym="A"><account id="3" ref="r2">5</account></symbol></create>`,
			`<transactions id="1"><query id="8"/></transactions>`,
		}, again.all())
	})
}

func TestAutoRefNamesWhatHasNoRef(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		take := func(p *peer) {
			xml, _ := p.readFrame()
			seen.add(xml)
		}
		c := open(t, played(t, Options{AutoRef: true}, take, func(p *peer) {
			take(p)
			p.say(bought("1", "4") + bought("2", "5"))
			take(p)
			p.say(`<created id="9"/>`)
		}))
		call := send(t, c, buys(1), buys(2).WithRef("mine"))
		results := answered(t, call)
		ref := call.Commands()[0].Ref
		require.Regexp(t, regexp.MustCompile(`^[A-Z2-7]{26}$`), ref, "128 bits and more")
		require.Equal(t, ref, results[0].Command.Ref)
		require.Equal(t, "mine", call.Commands()[1].Ref)
		require.NoError(t, c.OpenAccount(background, "9", Whole(1)))
		want := `<transactions id="1"><order sym="SPY" amount="1" limit="1" ref="` + ref +
			`"/><order sym="SPY" amount="1" limit="2" ref="mine"/></transactions>`
		require.Equal(t, []string{want, want}, seen.all()[:2], "the same frame")
		require.Regexp(t, `<account id="9" balance="1" ref="[A-Z2-7]{26}"/>`, seen.all()[2])
		require.NotContains(t, seen.all()[2], ref)
	})
}

func TestWhatFindsNoConnectionIsGivenUpInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{RetryTime: 20 * time.Second}, func(p *peer) { p.readFrame() }, nil))
		began := time.Now()
		first := send(t, c, buys(1).WithRef("r"))
		time.Sleep(10 * time.Second)
		second := send(t, c, buys(2))
		b := broken(t, first)
		require.ErrorIs(t, b, errNobody)
		require.True(t, b.MaybeDone)
		require.WithinRange(t, time.Now(), began.Add(20*time.Second), began.Add(23*time.Second))
		require.False(t, broken(t, second).MaybeDone, "it was never sent")
		require.WithinRange(t, time.Now(), began.Add(30*time.Second), began.Add(33*time.Second))
	})
}

func TestWithoutRetriesNothingWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{RetryTime: -1}, func(p *peer) { p.readFrame() }, nil, honest))
		began := time.Now()
		require.ErrorIs(t, broken(t, send(t, c, Query("1", 7))).Err, errHungUp)
		require.ErrorIs(t, broken(t, send(t, c, Query("1", 7))).Err, errNobody)
		_, err := c.Query(background, "1", 7)
		require.NoError(t, err, "there is an exchange again")
		require.Less(t, time.Since(began), time.Second)
	})
}

// TestPausesGrow: each pause is up to twice as long as the one before, up to the longest, and varies at
// random. After a reply the pauses start at the shortest.
func TestPausesGrow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var tries []time.Time
		o := played(t, Options{PauseMin: time.Second, PauseMax: 10 * time.Second, RetryTime: time.Hour},
			func(p *peer) { p.readFrame() },
			nil, nil, nil, nil, nil, nil, func(p *peer) { p.readFrame(); p.say(status("7")); p.readFrame() }, honest)
		dial := o.dial
		o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			tries = append(tries, time.Now())
			return dial(ctx, addr)
		}
		c := open(t, o)
		for range 2 {
			_, err := c.Query(background, "1", 7)
			require.NoError(t, err)
		}
		require.Len(t, tries, 9)
		for i, longest := range []time.Duration{1, 2, 4, 8, 10, 10, 10, 1} {
			pause := tries[i+1].Sub(tries[i])
			require.WithinRange(t, tries[i+1], tries[i].Add(longest*time.Second/2), tries[i].Add(longest*time.Second),
				"pause %d of %v", i, pause)
		}
	})
}

// cutting is a connection that sends a number of bytes and then breaks.
type cutting struct {
	net.Conn
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:min(len(b), c.left)])
	if c.left -= n; err == nil && n < len(b) {
		c.Close()
		err = net.ErrClosed
	}
	return n, err
}

// TestWhatDidNotLeaveWholeIsSent: no matter how many bytes were sent, orders whose frames were sent completely are in
// doubt, and all others are sent once on the next connection.
func TestWhatDidNotLeaveWholeIsSent(t *testing.T) {
	const frame = len("76\n" + `<transactions id="1"><order sym="SPY" amount="1" limit="1"/></transactions>`)
	for cut := range 4 * frame { // with all bytes of 4 frames, nothing would be cut
		inBubble(t, func(t *testing.T) {
			var seen frames
			limit := regexp.MustCompile(`limit="(\d)"`)
			o := played(t, Options{}, func(p *peer) {
				for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
					seen.add(xml)
				}
			}, func(p *peer) {
				for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
					seen.add(xml)
					price := limit.FindStringSubmatch(xml)[1]
					p.say(bought(price, price))
				}
			})
			dial, first := o.dial, true
			o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
				conn, err := dial(ctx, addr)
				if first {
					conn = &cutting{conn, cut}
				}
				first = false
				return conn, err
			}
			c := open(t, o)
			c.mu.Lock() // hold the lock so that one write sends all of them
			var calls []*Call
			for price := range int64(4) {
				call := &Call{client: c, commands: []Command{buys(price + 1)}, answered: make(chan struct{})}
				call.frame = encode(call.commands)
				c.places <- struct{}{}
				c.queue = append(c.queue, call)
				calls = append(calls, call)
			}
			c.mu.Unlock()
			c.rouse()
			unknown := 0
			for _, call := range calls {
				if _, err := call.Wait(background); err != nil {
					require.True(t, broken(t, call).MaybeDone)
					unknown++
				}
			}
			require.Equal(t, cut/frame, unknown, "cut after %d bytes", cut)
			require.Len(t, seen.all(), 4, "each once")
			for i, xml := range seen.all() {
				require.Contains(t, xml, fmt.Sprintf(`limit="%d"`, i+1), "in their order")
			}
		})
	}
}

// TestWhatIsSentAgainStaysInFront: the next connection first gets the calls that were already sent, then those of an
// unfinished write, then those still queued.
func TestWhatIsSentAgainStaysInFront(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := open(t, played(t, Options{}, func(p *peer) {
			p.readFrame()
			time.Sleep(time.Second) // read nothing, so that the next write blocks
		}, func(p *peer) {
			for _, id := range []string{"1", "2", "3"} {
				xml, _ := p.readFrame()
				seen.add(xml)
				p.say(status(id))
			}
		}))
		sent := send(t, c, Query("1", 1))
		time.Sleep(time.Millisecond)
		writing := send(t, c, Query("1", 2))
		time.Sleep(time.Millisecond)
		queued := send(t, c, Query("1", 3))
		for _, call := range []*Call{sent, writing, queued} {
			answered(t, call)
		}
		for i, xml := range seen.all() {
			require.Contains(t, xml, fmt.Sprintf(`<query id="%d"/>`, i+1))
		}
	})
}

func TestWhatNobodyWaitsForIsNotSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := open(t, played(t, Options{}, func(p *peer) {
			p.readFrame()
			time.Sleep(time.Minute / 2)
		}, func(p *peer) {
			for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
				seen.add(xml)
				p.say(status("8"))
			}
		}))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := c.Query(ctx, "1", 7)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		_, err = c.Query(background, "1", 8)
		require.NoError(t, err)
		require.Equal(t, []string{`<transactions id="1"><query id="8"/></transactions>`}, seen.all())
	})
}
