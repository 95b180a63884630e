package client

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// TestWhatIsNoAnswerIsAProtocolError: after a malformed reply, the call that it belongs to gets a protocol
// error, and the next call, which was sent too, gets the error of a broken connection.
func TestWhatIsNoAnswerIsAProtocolError(t *testing.T) {
	framed := func(xml string) string { return string(wire.AppendFrame(nil, []byte(xml))) }
	answered := func(part string) string { return framed(`<results><status id="7">` + part + `</status></results>`) }
	for reply, text := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n": `begins with its length in bytes`,
		"1001\n":                       "a frame of 1001 bytes is over the limit of 1000",
		framed("<results>"):            "<results> is not closed",
		framed("<html/>"):              "<html> is not a <results> of answers",
		framed("<results/>"):           "1 commands have 0 answers",
		framed(`<results><status id="7"/><status id="7"/></results>`): "1 commands have 2 answers",
		framed("<results><fine/></results>"):                          "1 commands have 0 answers",
		framed("<results>" + status("8") + "</results>"):              "the answer to another command",
		framed("<results>" + bought("1", "7") + "</results>"):         `it contains the unexpected answer "opened"`,
		answered(`<open shares="x"/>`):                                `"x" is not a decimal number`,
		answered(`<open shares="-1"/>`):                               `"-1" is not more than 0`,
		answered(`<canceled shares="1" time="noon"/>`):                `"noon" is not a time`,
		answered(`<executed shares="1" price="0" time="1"/>`):         `"0" is not more than 0`,
		answered(`<executed shares="1" price="1" time="1s"/>`):        `"1s" is not a time`,
	} {
		inBubble(t, func(t *testing.T) {
			c := open(t, played(t, Options{ReplyBytesMax: 1000, RetryTime: -1}, func(p *peer) {
				p.readFrame()
				p.readFrame()
				p.write(reply)
				silent(p)
			}))
			first, behind := send(t, c, Query("1", 7)), send(t, c, buys(1))
			_, err := first.Wait(background)
			var protocol *ProtocolError
			require.ErrorAs(t, err, &protocol, reply)
			require.Contains(t, err.Error(), text)
			require.Equal(t, first.Commands(), protocol.Sent)
			require.False(t, MaybeDone(err), "a query changes nothing")
			b := broken(t, behind)
			require.True(t, b.MaybeDone)
			require.ErrorIs(t, b.Err, protocol)
		})
	}
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(p *peer) {
			p.readFrame()
			p.say(`<created id="7"/>`)
			silent(p)
		}))
		_, err := c.Buy(background, "1", "SPY", Whole(1), Whole(1))
		require.ErrorAs(t, err, new(*ProtocolError))
		require.True(t, MaybeDone(err))
	})
}

func TestAReplyThatNobodyAskedForBreaksTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		replied := make(chan struct{})
		c := open(t, played(t, Options{}, func(p *peer) {
			p.say(status("7"))
			silent(p)
			close(replied)
		}, honest))
		<-replied
		_, err := c.Query(background, "1", 7)
		require.NoError(t, err, "on a connection of its own")
	})
}

func TestAnExchangeMayTakeItsTimeButNotLonger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{ReplyTimeout: time.Minute, RetryTime: -1}, func(p *peer) {
			for range 2 {
				p.readFrame()
				time.Sleep(59 * time.Second)
				p.say(status("7"))
			}
			silent(p)
		}))
		for range 2 {
			_, err := c.Query(background, "1", 7)
			require.NoError(t, err)
			time.Sleep(time.Hour) // no reply is outstanding
		}
		began := time.Now()
		first := send(t, c, buys(1))
		time.Sleep(10 * time.Second)
		second := send(t, c, buys(2))
		for _, call := range []*Call{first, second} {
			b := broken(t, call)
			require.ErrorIs(t, b.Err, errOwed)
			require.True(t, b.MaybeDone)
		}
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestEachReplyHasItsOwnTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{ReplyTimeout: time.Minute, RetryTime: -1}, func(p *peer) {
			p.readFrame()
			p.readFrame()
			time.Sleep(20 * time.Second)
			p.say(status("7"))
			silent(p)
		}))
		first := send(t, c, Query("1", 7))
		time.Sleep(30 * time.Second)
		began := time.Now()
		second := send(t, c, Query("1", 7))
		answered(t, first)
		require.ErrorIs(t, broken(t, second).Err, errOwed)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestAnExchangeThatTakesNothingBreaksTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		release := make(chan struct{})
		c := open(t, played(t, Options{ReplyTimeout: time.Minute}, func(*peer) { <-release }))
		began := time.Now()
		b := broken(t, send(t, c, buys(1)))
		require.False(t, b.MaybeDone, "not a byte has left")
		require.WithinRange(t, time.Now(), began.Add(2*time.Minute), began.Add(2*time.Minute+5*time.Second),
			"it was tried twice")
		close(release)
	})
}

func TestLastWordsAreToldToThoseWhoHaveNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, func(p *peer) {
			p.readFrame()
			p.readFrame()
			p.say(status("7"))
			p.say("<error>the exchange is stopping</error>")
		}, honest))
		first, second := send(t, c, Query("1", 7)), send(t, c, buys(1))
		answered(t, first)
		b := broken(t, second)
		require.Equal(t, &LastWords{Text: "the exchange is stopping"}, b.Err)
		require.True(t, b.MaybeDone)
		require.ErrorContains(t, b,
			"account 1 buys 1 SPY at 1: no answer, whether it was done is unknown: the exchange closed the connection: the "+
				"exchange is stopping")
		_, err := c.Query(background, "1", 7)
		require.NoError(t, err, "on the next connection")
	})
}

// TestAConnectionThatWasClosedForIdlenessHarmsNobody: after the exchange has closed an idle connection, the next
// order is sent on a new one, even without a ref.
func TestAConnectionThatWasClosedForIdlenessHarmsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gone := make(chan struct{})
		c := open(t, played(t, Options{}, func(p *peer) {
			time.Sleep(10 * time.Minute)
			p.say("<error>nothing was sent for 10m0s</error>")
			p.Close()
			close(gone)
		}, honest))
		<-gone
		time.Sleep(time.Minute)
		began := time.Now()
		id, err := c.Order(background, buys(1))
		require.NoError(t, err)
		require.EqualValues(t, 3, id)
		require.Zero(t, time.Since(began), "there is no pause so long after")
	})
}

func TestWhoGivesUpDisturbsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{Depth: 2}, func(p *peer) {
			p.readFrame()
			p.readFrame()
			time.Sleep(time.Minute / 2)
			p.say(bought("1", "1"))
			p.say(bought("2", "2"))
			honest(p)
		}))
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		other := make(chan error)
		go func() {
			time.Sleep(time.Second / 2)
			_, err := c.Order(background, buys(2))
			other <- err
		}()
		_, err := c.Order(ctx, buys(1))
		var gaveUp *GaveUp
		require.ErrorAs(t, err, &gaveUp)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, gaveUp.MaybeDone)
		require.True(t, MaybeDone(err))
		require.Equal(t, []Command{buys(1)}, gaveUp.Sent)

		_, err = c.Send(ctx, buys(3))
		require.ErrorAs(t, err, &gaveUp, "two are under way")
		require.False(t, MaybeDone(err), "it was not sent")

		require.NoError(t, <-other)
		_, err = c.Query(background, "1", 7)
		require.NoError(t, err, "the places are free")
	})
}

func TestWhatNobodyWaitsForIsNotSentLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := open(t, played(t, Options{Depth: 1}, func(*peer) {}, nil, nil, nil, func(p *peer) {
			for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
				seen.add(xml)
				p.say(status("7"))
			}
		}))
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		_, err := c.Order(ctx, buys(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, MaybeDone(err))
		_, err = c.Query(background, "1", 7)
		require.NoError(t, err)
		require.Equal(t, []string{`<transactions id="1"><query id="7"/></transactions>`}, seen.all())
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{Depth: 1}, silent))
		sent := send(t, c, buys(1))
		waiting := make(chan error)
		go func() {
			_, err := c.Query(background, "1", 7)
			waiting <- err
		}()
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		b := broken(t, sent)
		require.ErrorIs(t, b, ErrClosed)
		require.True(t, b.MaybeDone)
		require.ErrorIs(t, <-waiting, ErrClosed)
	})
	inBubble(t, func(t *testing.T) { // Close while there is no connection
		c := open(t, played(t, Options{}, func(*peer) {}, nil))
		time.Sleep(time.Second)
		call := send(t, c, buys(1))
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		require.False(t, broken(t, call).MaybeDone)
	})
	inBubble(t, func(t *testing.T) { // Close while the exchange reads nothing
		release := make(chan struct{})
		c := open(t, played(t, Options{}, func(*peer) { <-release }))
		call := send(t, c, buys(1))
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(began))
		broken(t, call)
		close(release)
	})
}

// notTaken is the reply to an unacceptable token.
var notTaken = string(wire.AppendError(nil, wire.TextUnauthorized+" (connection 7)"))

func TestTheTokenIsProvedFirst(t *testing.T) {
	token := `outc_1_"<&>"`
	frame := `<auth token="outc_1_&#34;&lt;&amp;&gt;&#34;"/>`
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{Token: token}, func(p *peer) {
			xml, _ := p.readFrame()
			if xml == frame {
				p.say("<authorized/>")
			}
			p.readFrame()
		}, func(p *peer) {
			p.readFrame()
			p.write(string(wire.AppendFrame(nil, []byte(notTaken))))
		}))
		// The connection breaks, and the token is no longer valid: the client does not retry.
		began := time.Now()
		b := broken(t, send(t, c, Query("1", 7)))
		var refused *Unauthorized
		require.ErrorAs(t, b, &refused)
		require.Equal(t, wire.TextUnauthorized+" (connection 7)", refused.Text)
		require.Less(t, time.Since(began), time.Second)
	})
	for reply, want := range map[string]string{
		"<error>unknown root element &lt;auth&gt;, only</error>": "the token is refused: unknown root element <auth>, only",
		"<error>no</error>":        "the exchange closed the connection: no",
		`<error id="1">no</error>`: "the answer to the token is invalid",
		"<authorised/>":            "the answer to the token is invalid",
		"<authorized/>\n":          "the answer to the token is invalid",
	} {
		inBubble(t, func(t *testing.T) {
			_, err := Dial(background, "exchange:1", played(t, Options{Token: token}, func(p *peer) {
				p.readFrame()
				p.say(reply)
			}))
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "outc_")
		})
	}
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		_, err := Dial(background, "exchange:1", played(t, Options{Token: token}, silent))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
	require.NotContains(t, fmt.Sprint(&Unauthorized{Text: "no"}), token)
}

// TestAnExchangeWithoutAPlaceDoesNotMeanTheToken: the client keeps trying if a restarted exchange refuses the
// connection because it is full or stopping.
func TestAnExchangeWithoutAPlaceDoesNotMeanTheToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		full := func(p *peer) {
			p.readFrame()
			p.say("<error>the exchange has 2 connections and accepts no more; try again later (connection 3)</error>")
		}
		stopping := func(p *peer) {
			p.readFrame()
			p.say("<error>the exchange is stopping</error>")
		}
		c := open(t, played(t, Options{Token: "t"}, func(p *peer) {
			p.readFrame()
			p.say("<authorized/>")
		}, stopping, full, full, func(p *peer) {
			p.readFrame()
			p.say("<authorized/>")
			p.readFrame()
			p.say(status("7"))
			p.readFrame()
		}))
		results, err := send(t, c, Query("1", 7)).Wait(background)
		require.NoError(t, err)
		require.Equal(t, OrderID(7), results[0].Status.Order)
		_, err = Dial(background, "exchange:1", played(t, Options{Token: "t"}, full))
		require.ErrorAs(t, err, new(*LastWords))
		require.False(t, final(err))
	})
}

// elsewhere is a connection whose peer seems to be on another machine.
type elsewhere struct{ net.Conn }

func (elsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// TestATokenGoesToOtherMachinesEncryptedOnly: without TLS, no byte of a token goes to another machine, unless
// an option allows it; then there is a warning.
func TestATokenGoesToOtherMachinesEncryptedOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		var log strings.Builder
		o := played(t, Options{Token: "secret", Log: slog.New(slog.NewTextHandler(&log, nil))}, func(p *peer) {
			for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
				seen.add(xml)
				p.say("<authorized/>")
			}
		})
		dial := o.dial
		o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			return elsewhere{conn}, err
		}
		_, err := Dial(background, "exchange:1", o)
		require.ErrorIs(t, err, ErrInsecureToken)
		require.NotContains(t, err.Error(), "secret")
		require.True(t, final(err), "a further try would end alike")
		o.InsecureToken = true
		open(t, o)
		require.Len(t, seen.all(), 1)
		require.Contains(t, log.String(), "level=WARN")
		require.NotContains(t, log.String(), "secret")
	})
}
