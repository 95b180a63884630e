package client

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestATokenGoesEncryptedToOtherMachines: with TLS a token is sent to another machine, and without a warning.
func TestATokenGoesEncryptedToOtherMachines(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	defer certificates.Close()
	o := played(t, Options{Token: "secret"}, func(p *peer) {
		server := newPeer(tls.Server(p.Conn, &tls.Config{Certificates: certificates.TLS.Certificates}))
		for _, ok := server.readFrame(); ok; _, ok = server.readFrame() {
			server.say("<authorized/>")
		}
	})
	dial := o.dial
	o.TLS = &tls.Config{InsecureSkipVerify: true} // certificate_test.go tests the certificates
	o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := dial(ctx, addr)
		return tls.Client(elsewhere{conn}, o.TLS), err
	}
	conn, err := DialConn(background, "exchange:1", o)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// deaf is a connection that accepts no byte after the first write, but still delivers replies.
type deaf struct {
	net.Conn
	writes int
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.writes++; d.writes > 1 {
		return 0, net.ErrClosed
	}
	return d.Conn.Write(b)
}

// TestWhatIsAnsweredAfterAFailedWriteIsAnswered: if a write fails while the reply to an earlier order is in transit,
// that order gets its reply, and is neither resent nor in doubt.
func TestWhatIsAnsweredAfterAFailedWriteIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := played(t, Options{RetryTime: -1}, func(p *peer) {
			p.readFrame()
			time.Sleep(lastWordsTime / 2)
			p.say(bought("1", "3"))
			silent(p)
		})
		dial := o.dial
		o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			return &deaf{Conn: conn}, err
		}
		c := open(t, o)
		first := send(t, c, buys(1))
		synctest.Wait()
		behind := send(t, c, buys(2))
		require.EqualValues(t, 3, answered(t, first)[0].Order)
		require.False(t, broken(t, behind).MaybeDone, "not a byte of it has left")
	})
}

// TestAQueryThatIsGivenUpIsInNoDoubt: a query changes nothing, so it does not matter whether it was sent.
func TestAQueryThatIsGivenUpIsInNoDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, silent))
		for _, each := range []struct {
			command Command
			doubt   bool
		}{{Query("1", 7), false}, {QueryRef("1", "a"), false}, {Cancel("1", 7), true}, {buys(1), true}} {
			ctx, cancel := context.WithTimeout(background, time.Second)
			_, err := send(t, c, each.command).Wait(ctx)
			require.ErrorAs(t, err, new(*GaveUp))
			require.Equal(t, each.doubt, MaybeDone(err), "%v", each.command)
			cancel()

			ctx, cancel = context.WithTimeout(background, time.Second)
			_, err = c.Do(ctx, each.command)
			require.Equal(t, each.doubt, MaybeDone(err), "%v", each.command)
			cancel()
		}
	})
}

// TestAfterAFailedWriteNobodyWaitsLong: calls that wait for replies fail one second after a failed write.
func TestAfterAFailedWriteNobodyWaitsLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := played(t, Options{RetryTime: -1}, silent)
		dial := o.dial
		o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			return &deaf{Conn: conn}, err
		}
		c := open(t, o)
		first := send(t, c, buys(1))
		synctest.Wait()
		began := time.Now()
		send(t, c, buys(2))
		lost := broken(t, first)
		require.True(t, lost.MaybeDone)
		require.ErrorIs(t, lost.Err, net.ErrClosed, "the error of the write, as no reply followed")
		require.Equal(t, time.Second, time.Since(began))
	})
}

// TestASuspectIsNotSentBehindASilentProbe: a frame that may have broken a connection is resent only right
// after a reply to a probe, a frame that has no effect.
func TestASuspectIsNotSentBehindASilentProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := open(t, played(t, Options{ReplyTimeout: time.Second, RetryTime: time.Hour}, func(p *peer) {
			p.readFrame()
			p.say("<error>the exchange is stopping</error>")
		}, func(p *peer) {
			for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
				seen.add(xml)
			}
		}, func(p *peer) {
			p.readFrame()
			p.say("")
			honest(p)
		}))
		suspect := send(t, c, buys(1).WithRef("r"))
		require.EqualValues(t, 3, answered(t, suspect)[0].Order)
		require.Equal(t, []string{probing}, seen.all())
	})
}

// spent is a connection whose writes succeed completely but return an error.
type spent struct{ net.Conn }

func (s spent) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	if err == nil {
		err = net.ErrClosed
	}
	return n, err
}

// TestWhatLeftWholeIsAnsweredAlthoughTheWriteFailed: a frame that was sent completely gets its reply, and is
// not resent.
func TestWhatLeftWholeIsAnsweredAlthoughTheWriteFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		o := played(t, Options{}, strict(&seen))
		dial := o.dial
		o.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			return spent{conn}, err
		}
		c := open(t, o)
		require.EqualValues(t, 3, answered(t, send(t, c, buys(1)))[0].Order)
		require.Equal(t, []string{harmless}, seen.all())
	})
}
