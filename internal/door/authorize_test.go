package door

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
)

// keyring is a data directory with tokens, and a server's view of it.
type keyring struct {
	t      testing.TB
	dir    string
	tokens *auth.Tokens
}

func newKeyring(t testing.TB) *keyring {
	t.Helper()
	k := &keyring{t: t, dir: t.TempDir()}
	var err error
	k.tokens, err = auth.OpenTokens(k.dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return k
}

// add makes a token that is valid from now on.
func (k *keyring) add(scope string, expires time.Time) (token, id string) {
	k.t.Helper()
	s, err := auth.ParseScope(scope)
	require.NoError(k.t, err)
	token, e, err := auth.Add(k.dir, s, expires, "")
	require.NoError(k.t, err)
	require.NoError(k.t, k.tokens.Reload())
	return token, e.ID
}

func (k *keyring) revoke(id string) {
	k.t.Helper()
	require.NoError(k.t, auth.Revoke(k.dir, id))
	require.NoError(k.t, k.tokens.Reload())
}

func authFrame(token string) string { return frame(fmt.Sprintf(`<auth token="%s"/>`, token)) }

const taken = "<results><authorized/></results>"

func TestAClientThatShowsItsTokenIsServed(t *testing.T) {
	l, x, k := listen(t), newFake(), newKeyring(t)
	token, _ := k.add("admin", time.Time{})
	start(t, l, x, Options{Tokens: k.tokens})
	c := dial(t, l)
	c.send("\r\n ", authFrame(token), opening(7), query(1), authFrame(token), query(2))
	require.Equal(t, taken, c.reply())
	require.Equal(t, `<results><created id="7"/></results>`, c.reply())
	require.Equal(t, answer(1), c.reply())
	require.Equal(t, errorReply("unknown root element <auth>, only <create> and <transactions> are known"), c.reply(),
		"a session cannot present another token")
	require.Equal(t, answer(2), c.reply())
}

func TestWhoShowsNoTokenThatIsTakenGetsOneErrorAndNothingElse(t *testing.T) {
	synctest.Test(t, clientsWithoutToken) // in a synctest bubble, where delays take no real time
}

func clientsWithoutToken(t *testing.T) {
	p, x, k := newPipes(), newFake(), newKeyring(t)
	right, _ := k.add("admin", time.Time{})
	revoked, id := k.add("admin", time.Time{})
	k.revoke(id)
	expired, _ := k.add("admin", time.Now().Add(2*time.Second))
	time.Sleep(2 * time.Second)
	reading, _ := k.add("read", time.Time{})
	operating, _ := k.add("operate", time.Time{})
	health, _ := k.add("health", time.Time{})
	s := start(t, p, x, Options{Tokens: k.tokens})
	wrong := map[string]string{
		"no token":           opening(1),
		"a malformed one":    authFrame("outc_"),
		"a wrong one":        authFrame(right[:len(right)-4] + "0000"),
		"a revoked one":      authFrame(revoked),
		"an expired one":     authFrame(expired),
		"one for reading":    authFrame(reading),
		"one for operating":  authFrame(operating),
		"one for health":     authFrame(health),
		"another attribute":  frame(fmt.Sprintf(`<auth token="%s" id="1"/>`, right)),
		"no attribute":       frame(`<auth/>`),
		"something in it":    frame(fmt.Sprintf(`<auth token="%s"><order/></auth>`, right)),
		"a large frame":      "4097\n" + strings.Repeat(" ", 4097),
		"no length":          "GET / HTTP/1.1\r\n\r\n",
		"malformed XML":      frame("<auth"),
		"a huge length line": strings.Repeat("0", 2000) + "\n",
	}
	for name, stream := range wrong {
		t.Log(name)
		c := connect(t, p)
		go func() { _, _ = io.WriteString(c, stream+opening(1)+query(1)) }() // the server does not read all of it
		c.isLast(wire.TextUnauthorized)
	}
	require.Zero(t, x.executed())
	require.Equal(t, float64(len(wrong)), testutil.ToFloat64(s.options.Metrics.authRefused))
	c := connect(t, p)
	c.send(authFrame(right))
	require.Equal(t, taken, c.reply(), "a valid token is never delayed")
}

func TestATokenMustComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k := newPipes(), newKeyring(t)
		token, _ := k.add("admin", time.Time{})
		start(t, p, newFake(), Options{Tokens: k.tokens})
		c := connect(t, p)
		begun := time.Now()
		c.drip(strings.Repeat("\n ", 500)+authFrame(token), 20*time.Millisecond)
		require.Equal(t, errorReply(wire.TextUnauthorized), c.reply())
		require.Equal(t, AuthTimeout, time.Since(begun), "counted from the start of the session, however many bytes arrive")
		c.ends()
		c = connect(t, p)
		time.Sleep(AuthTimeout - time.Second)
		c.send(authFrame(token))
		require.Equal(t, taken, c.reply())
		time.Sleep(9 * time.Minute)
		c.send(query(1))
		require.Equal(t, answer(1), c.reply(), "after the token the usual timeouts hold")
	})
}

func TestATokenTakesNoSharedMemory(t *testing.T) {
	l, k := listen(t), newKeyring(t)
	s := start(t, l, newFake(), Options{Tokens: k.tokens, MemoryMax: 8})
	require.True(t, s.arriving.try(s.arriving.max))
	require.True(t, s.working.try(s.working.max))
	token, _ := k.add("admin", time.Time{})
	c := dial(t, l)
	c.send(authFrame(token))
	require.Equal(t, taken, c.reply())
	c.send(query(1))
	require.Equal(t, answer(1), c.reply())
	s.arriving.release(s.arriving.max)
	s.working.release(s.working.max)
}

func TestAFrameAfterTheTokenMayBeAsLargeAsAlways(t *testing.T) {
	l, k := listen(t), newKeyring(t)
	token, _ := k.add("account:1", time.Time{})
	start(t, l, newFake(), Options{Tokens: k.tokens})
	c := dial(t, l)
	c.send(authFrame(token), frame(`<transactions id="1"><query id="1"/>`+strings.Repeat(" ", 100_000)+`</transactions>`))
	require.Equal(t, taken, c.reply())
	require.Equal(t, answer(1), c.reply())
}

func TestATokenIsForItsAccountsAlone(t *testing.T) {
	l, x, k := listen(t), newFake(), newKeyring(t)
	token, _ := k.add("account:1,3", time.Time{})
	s := start(t, l, x, Options{Tokens: k.tokens})
	c := dial(t, l)
	ask := func(account string) string {
		return frame(fmt.Sprintf(`<transactions id="%s"><query id="1"/><order sym="S" amount="1" limit="1"/>`+
			`<cancel id="2"/></transactions>`, account))
	}
	c.send(authFrame(token), ask("2"), frame(`<create><account id="1" balance="5"/><symbol sym="S">`+
		`<account id="1">5</account></symbol><symbol sym="T"/></create>`), query(1))
	require.Equal(t, taken, c.reply())
	const no = "the token of this connection is not for account 2"
	require.Equal(t, `<results><error id="1">`+no+`</error><error sym="S" amount="1" limit="1">`+no+`</error><error `+
		`id="2">`+no+`</error></results>`, c.reply())
	const create = "&lt;create&gt; needs a token of scope admin"
	require.Equal(t, `<results><error id="1">`+create+`</error><error sym="S" id="1">`+create+
		`</error><error sym="T">`+create+`</error></results>`, c.reply())
	require.Equal(t, answer(1), c.reply())
	c.send(frame(`<create><symbol sym="` + strings.Repeat("?", 100_000) +
		`"><account id="1">5</account><x/></symbol></create>`))
	require.Equal(t, `<results><error>`+create+`</error><error>`+create+`</error></results>`, c.reply(),
		"permissions are checked before errors in an element")
	require.Equal(t, 1, x.executed())
	require.Equal(t, 7.0, testutil.ToFloat64(s.options.Metrics.authDenied), "seven commands were denied")
	require.Equal(t, 2.0, testutil.ToFloat64(s.options.Metrics.malformed))
	require.True(t, x.ownOnly(), "queries are limited to its own orders")
}

// An order of another account is hidden from clients with tokens, even if it is only in the history.
func TestForeignOrdersLookUnknownToBearers(t *testing.T) {
	for i, k := range []*keyring{nil, newKeyring(t), nil, newKeyring(t)} {
		l, x, hello := listen(t), newFake(), ""
		x.foreign = 5
		if i >= 2 {
			x.past = 5
		}
		o := Options{}
		want := "order 5 does not belong to account 1"
		if k != nil {
			token, _ := k.add("account:*", time.Time{})
			o.Tokens, hello, want = k.tokens, authFrame(token), "there is no order 5"
		}
		start(t, l, x, o)
		c := dial(t, l)
		c.send(hello, query(5))
		if k != nil {
			require.Equal(t, taken, c.reply())
		}
		require.Equal(t, `<results><error id="5">`+want+`</error></results>`, c.reply())
	}
}

func TestARevokedTokenEndsItsConnections(t *testing.T) {
	l, x, k := listen(t), newFake(), newKeyring(t)
	token, id := k.add("account:1", time.Time{})
	start(t, l, x, Options{Tokens: k.tokens, BatchFramesMax: 1})
	idle, busy, partial := dial(t, l), dial(t, l), dial(t, l)
	for _, c := range []*client{idle, busy, partial} {
		c.send(authFrame(token))
		require.Equal(t, taken, c.reply())
	}
	partial.send(query(1)[:10])
	sending := make(chan struct{})
	go func() { // pipelines requests until its connection ends
		defer close(sending)
		for {
			if _, err := io.WriteString(busy, query(2)); err != nil {
				return
			}
		}
	}()
	for range 100 {
		require.Equal(t, answer(2), busy.reply())
	}
	k.revoke(id)
	const reason = "the token was revoked; nothing that was sent after the last reply was done"
	idle.isLast(reason)
	partial.isLast(reason)
	answered := 100
	reply := busy.reply()
	for ; reply == answer(2); reply = busy.reply() {
		answered++
	}
	require.Equal(t, errorReply(reason), reply)
	require.Equal(t, answered, x.executed(), "exactly the answered orders were executed")
	require.NoError(t, busy.Close())
	<-sending
	again := dial(t, l)
	again.send(authFrame(token))
	again.isLast(wire.TextUnauthorized)
}

func TestFramesThatHaveArrivedAreNotDoneForARevokedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x, k := newPipes(), newFake(), newKeyring(t)
		token, id := k.add("account:1", time.Time{})
		x.entered = func() { k.revoke(id); x.entered = nil }
		start(t, p, x, Options{Tokens: k.tokens, BatchFramesMax: 1})
		c := connect(t, p)
		go c.send(authFrame(token), query(1), query(2), query(3))
		require.Equal(t, taken, c.reply())
		require.Equal(t, answer(1), c.reply(), "the command had begun before the token was revoked")
		require.Equal(t, errorReply("the token was revoked; nothing that was sent after the last reply was done"), c.reply())
		require.Equal(t, []int{1}, x.queried)
	})
}

func TestAnExpiredTokenEndsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k := newPipes(), newKeyring(t)
		token, _ := k.add("admin", time.Now().Add(time.Minute))
		start(t, p, newFake(), Options{Tokens: k.tokens})
		c := connect(t, p)
		c.send(authFrame(token))
		require.Equal(t, taken, c.reply())
		begun := time.Now()
		require.Equal(t, errorReply("the token has expired; nothing that was sent after the last reply was done"), c.reply())
		require.Equal(t, time.Minute, time.Since(begun))
	})
}

func TestAServerThatShutsDownDoesNotWaitForTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k := newPipes(), newKeyring(t)
		s := New(newFake(), Options{Tokens: k.tokens})
		go func() { _ = s.Serve(p, xmlCodec) }()
		c := connect(t, p)
		synctest.Wait()
		done := make(chan error, 1)
		begun := time.Now()
		go func() { done <- s.Shutdown(t.Context()) }()
		require.Equal(t, errorReply(textDraining), c.reply())
		c.ends()
		require.NoError(t, <-done)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
}

func TestAnotherTransportBringsWhatItsClientMayDo(t *testing.T) {
	k := newKeyring(t)
	token, id := k.add("account:1", time.Time{})
	s := start(t, listen(t), newFake(), Options{Tokens: k.tokens})
	grant, err := k.tokens.Check(token)
	require.NoError(t, err)
	frame := []byte(framedXML(query(1)))
	reply, err := ask(s, auth.WithGrant(t.Context(), grant), frame)
	require.NoError(t, err)
	require.Equal(t, answer(1), string(reply))
	const ended = "the token of this request has ended"
	reply, err = ask(s, t.Context(), frame)
	require.NoError(t, err)
	require.Equal(t, errorReply(ended), string(reply))
	k.revoke(id)
	reply, err = ask(s, auth.WithGrant(t.Context(), grant), frame)
	require.NoError(t, err)
	require.Equal(t, errorReply(ended), string(reply))
}

// ownOnly reports whether every query was limited to the account's own orders.
func (x *fake) ownOnly() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.commands {
		if c.Kind == exchange.QueryOrder && !c.OwnOnly {
			return false
		}
	}
	return len(x.commands) > 0
}
