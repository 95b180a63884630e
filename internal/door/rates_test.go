package door

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// ordering returns a frame with the given number of orders of an account, a cancel, and a query.
func ordering(account string, orders int) string {
	return frame(fmt.Sprintf(`<transactions id="%s">%s<cancel id="1"/><query id="1"/></transactions>`, account,
		strings.Repeat(anOrder, orders)))
}

func TestAnAccountOverItsRateIsRefusedItsOrdersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		s := start(t, p, x, Options{})
		s.SetRates(0, 4)
		c := connect(t, p)
		refused := func(account string) string {
			return `<error sym="S" amount="1" limit="1">account ` + account +
				` is over its limit of 4 orders and creates per second; try again in 250ms</error>`
		}
		rest := `<canceled id="1"></canceled>` + strings.TrimSuffix(strings.TrimPrefix(answer(1), "<results>"),
			"</results>") + "</results>"
		c.send(ordering("1", 6))
		require.Equal(t, "<results>"+strings.Repeat(anOpened, 4)+strings.Repeat(refused("1"), 2)+rest, c.reply(),
			"cancels and queries are not limited")
		c.send(ordering("2", 1))
		require.Equal(t, "<results>"+anOpened+rest, c.reply(), "other accounts are not limited")
		time.Sleep(250 * time.Millisecond)
		c.send(ordering("1", 2))
		require.Equal(t, "<results>"+anOpened+refused("1")+rest, c.reply(), "the repetition gets the first answer")
		require.Equal(t, 3.0, s.hits(limitRateAccount))
		c.send(frame(`<create><account id="9" balance="1"/><symbol sym="S">` +
			strings.Repeat(`<account id="9">1</account>`, 4) + `</symbol></create>`))
		require.Equal(t, 1, strings.Count(c.reply(), "over its limit"), "creates count too")
		s.SetRates(0, 0)
		c.send(ordering("1", 100))
		require.Equal(t, "<results>"+strings.Repeat(anOpened, 100)+rest, c.reply())
	})
}

// A command with a ref is passed to the exchange even above the rate, as it may be a repetition.
func TestACommandWithARefIsAskedForAlthoughItsAccountIsOverItsRate(t *testing.T) {
	s := New(newFake(), Options{})
	s.SetRates(0, 1)
	b := s.takeBatch(xmlCodec)
	b.judge = s.Request(nil).judge()
	b.add([]byte(`<transactions id="1"><order sym="S" amount="1" limit="1" ref="a"/>`+
		`<order sym="S" amount="1" limit="1" ref="b"/><order sym="S" amount="1" limit="1"/></transactions>`), false)
	require.Len(t, b.messages[0].Message.(*wire.Request).Commands, 2)
	require.Len(t, b.commands, 2)
	require.False(t, b.commands[0].Repeat)
	require.True(t, b.commands[1].Repeat)
}

func TestAConnectionOverItsRateIsReadMoreSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x := newPipes(), newFake()
		s := start(t, p, x, Options{IdleTimeout: time.Second, FrameTimeout: time.Second, BatchFramesMax: 1})
		s.SetRates(10, 0)
		c := connect(t, p)
		begun := time.Now()
		go func() {
			c.send(strings.Repeat(query(1), 30), ordering("1", 28))
			c.send(query(1)) // is read from the connection after the wait
		}()
		for i := range 30 {
			require.Equal(t, answer(1), c.reply())
			want := time.Duration(max(0, i-10)) * 100 * time.Millisecond
			require.Equal(t, want, time.Since(begun), "frame %d", i+1)
		}
		require.Contains(t, c.reply(), anOpened)
		require.Equal(t, 2*time.Second, time.Since(begun))
		require.Equal(t, answer(1), c.reply(), "the wait does not count toward IdleTimeout or FrameTimeout")
		require.Equal(t, 5*time.Second, time.Since(begun), "30 commands more")
		require.NotZero(t, s.hits(limitRateConnection))
		s.SetRates(0, 0)
		c.send(query(1))
		require.Equal(t, answer(1), c.reply())
		require.LessOrEqual(t, time.Since(begun), 5200*time.Millisecond)
	})
}

func TestAMalformedFrameCountsAsACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		start(t, p, newFake(), Options{BatchFramesMax: 1}).SetRates(1, 0)
		c := connect(t, p)
		begun := time.Now()
		go c.send(strings.Repeat(frame("<x"), 4))
		for range 4 {
			require.Contains(t, c.reply(), "malformed XML")
		}
		require.Equal(t, 2*time.Second, time.Since(begun))
	})
}

func TestASlowedConnectionEndsWithTheServerAndItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k := newPipes(), newKeyring(t)
		token, id := k.add("account:1", time.Time{})
		s := New(newFake(), Options{Tokens: k.tokens})
		served := make(chan error, 1)
		go func() { served <- s.Serve(p, xmlCodec) }()
		s.SetRates(1, 0)
		first, second := connect(t, p), connect(t, p)
		for _, c := range []*client{first, second} {
			c.send(authFrame(token))
			require.Equal(t, taken, c.reply())
			c.send(ordering("1", 1000))
			c.reply()
		}
		begun := time.Now()
		for _, c := range []*client{first, second} {
			go func() { _, _ = io.Copy(io.Discard, c) }() // a pipe has no buffer
		}
		require.NoError(t, s.Shutdown(t.Context()), "although a session is slowed down for a minute")
		require.NoError(t, <-served)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)

		p2 := newPipes()
		start(t, p2, newFake(), Options{Tokens: k.tokens}).SetRates(1, 0)
		third := connect(t, p2)
		third.send(authFrame(token))
		require.Equal(t, taken, third.reply())
		third.send(ordering("1", 1000))
		third.reply()
		begun = time.Now()
		k.revoke(id)
		require.Contains(t, third.reply(), "the token was revoked")
		require.Zero(t, time.Since(begun))
	})
}

// A large frame may keep a connection from being read for at most a minute, not for hours.
func TestAFrameSlowsItsConnectionDownForAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		start(t, p, newFake(), Options{}).SetRates(1, 0)
		c := connect(t, p)
		for range 2 {
			begun := time.Now()
			c.send(ordering("1", 10_000))
			c.reply()
			c.send(query(1))
			require.Equal(t, answer(1), c.reply())
			require.Equal(t, slowMax, time.Since(begun))
			time.Sleep(2 * time.Second) // one second for the query, and one for the burst
		}
	})
}

func TestALimitThatChangesWakesWhoIsSlowedDown(t *testing.T) {
	for _, next := range []int{0, 1000} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipes()
			s := start(t, p, newFake(), Options{})
			s.SetRates(1, 0)
			c := connect(t, p)
			c.send(ordering("1", 10_000))
			c.reply()
			begun := time.Now()
			s.SetRates(next, 0)
			c.send(query(1))
			require.Equal(t, answer(1), c.reply())
			require.LessOrEqual(t, time.Since(begun), slowCheckEvery)
		})
	}
}

func TestMemoryOfAccountRatesIsBounded(t *testing.T) {
	r, now := newAccountRates(), time.Now()
	spend := func(i int) time.Duration { return r.spend(exchange.AccountID(fmt.Sprint(i)), 1, now) }
	for i := range accountsPacedMax {
		require.Zero(t, spend(i))
	}
	require.Zero(t, spend(-1), "further accounts share one allowance")
	require.NotZero(t, spend(-2))
	require.Len(t, r.paced, accountsPacedMax)
	require.NotZero(t, spend(1))
	now = now.Add(2 * time.Second)
	require.Zero(t, spend(-2), "accounts with a full allowance are removed")
	require.Len(t, r.paced, 1)
	require.Zero(t, spend(-1))
}
