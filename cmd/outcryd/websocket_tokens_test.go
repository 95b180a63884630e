package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/xml/wire"
)

// secretOf returns digits that appear in all private data of an account and nowhere else: in its refs, in its
// balance, and in its position in a symbol of its own.
func secretOf(account int) string { return fmt.Sprintf("%d%[1]d%[1]d%[1]d%[1]d%[1]d%[1]d", account) }

// tokensOf creates a token for each scope, and returns the tokens by scope.
func tokensOf(t *testing.T, data string, scopes ...string) map[string]string {
	tokens := make(map[string]string)
	for _, text := range scopes {
		scope, err := auth.ParseScope(text)
		require.NoError(t, err)
		tokens[text], _, err = auth.Add(data, scope, time.Time{}, "")
		require.NoError(t, err)
	}
	return tokens
}

// TestNothingPrivateOfAnotherAccountIsSent lets three accounts trade with each other at random. With each kind of
// token, a client calls every method for every account and subscribes to every channel, repeatedly. What the token
// does not allow is refused, and no message that the client receives contains anything private of other accounts.
func TestNothingPrivateOfAnotherAccountIsSent(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	flags, _ := dataFlags(t)
	data := strings.TrimPrefix(flags[0], "--data=")
	tokens := tokensOf(t, data, "account:1", "account:2", "account:1,3", "account:*", "admin", "read", "operate", "health")
	p := start(t, append(flags, "--auth")...)
	x := dial(t, p.xml)
	require.Contains(t, x.must(t, string(wire.AppendAuth(nil, tokens["admin"]))), "authorized")
	created := "<create>"
	for a := 1; a <= 3; a++ {
		created += fmt.Sprintf(`<account id="%d" balance="%s.5"/>`, a, secretOf(a))
	}
	created += `<symbol sym="SPY">`
	for a := 1; a <= 3; a++ {
		created += fmt.Sprintf(`<account id="%d">%s</account>`, a, secretOf(a))
	}
	require.NotContains(t, x.must(t, created+"</symbol></create>"), "<error")

	trading := make(chan struct{})
	go func() {
		defer close(trading)
		tradeAtRandom(t, dialWS(t, p.http, tokens["admin"]), rand.New(rand.NewPCG(seed, 0)))
	}()
	var clients sync.WaitGroup
	for text, token := range tokens {
		scope, err := auth.ParseScope(text)
		require.NoError(t, err)
		clients.Go(func() { pry(t, dialWS(t, p.http, token), scope, trading) })
	}
	clients.Wait()
	<-trading
}

// tradeAtRandom lets the accounts trade, with refs that contain their secrets.
func tradeAtRandom(t *testing.T, w *wsConn, random *rand.Rand) {
	for i := range 300 {
		a := 1 + random.IntN(3)
		amount := 1 + random.IntN(3)
		if random.IntN(2) == 0 {
			amount = -amount
		}
		w.must("order.place", fmt.Sprintf(`{"account":"%d","sym":"SPY","amount":"%d","limit":"%d","ref":"r%s-%d"}`,
			a, amount, 5+random.IntN(5), secretOf(a), i))
	}
}

// pry requests everything with one token until trading has ended, and then once more.
func pry(t *testing.T, w *wsConn, scope auth.Scope, trading <-chan struct{}) {
	var foreign []string
	for a := 1; a <= 3; a++ {
		if !scope.ActsFor(accountID(a)) {
			foreign = append(foreign, secretOf(a))
		}
	}
	w.inspect = func(text string) {
		for _, secret := range foreign {
			require.NotContains(t, text, secret, "scope %s", scope)
		}
	}
	for over := false; !over; {
		select {
		case <-trading:
			over = true
		default:
		}
		pryOnce(t, w, scope)
		w.events = nil
	}
}

func pryOnce(t *testing.T, w *wsConn, scope auth.Scope) {
	expect := func(allowed bool, a answer) {
		if !allowed {
			require.NotNil(t, a.Error, "scope %s: %s", scope, a.text)
			require.Equal(t, "not_allowed", a.Error.Data.Reason, a.text)
		} else if a.Error != nil {
			require.NotContains(t, []string{"not_allowed", "unauthenticated"}, a.Error.Data.Reason, "%s: %s", scope, a.text)
		}
	}
	for a := 1; a <= 3; a++ {
		mine := scope.ActsFor(accountID(a))
		for method, params := range map[string]string{
			"account.get": "", "orders.open": "", "fills.list": "", "order.get": `,"id":1`, "order.cancel": `,"id":2`,
			"order.amend": `,"id":3,"limit":"6"`, "order.cancel_all": `,"sym":"QQQ"`, "cancel_after": `,"seconds":0`,
			"order.place": `,"sym":"QQQ","amount":"1","limit":"1"`,
		} {
			expect(mine, w.call(method, fmt.Sprintf(`{"account":"%d"%s}`, a, params)))
		}
		for other := 1; other <= 3; other++ { // another account's ref under this account's id
			id := fmt.Sprintf(`{"account":"%d","ref":"r%s-1"}`, a, secretOf(other))
			if other != a && mine && scope.ActsFor(accountID(other)) {
				expect(true, w.call("order.get", id))
			}
		}
		expect(mine, w.call("subscribe", fmt.Sprintf(`{"channels":["account.%d"]}`, a)))
		expect(mine, w.call("subscribe", fmt.Sprintf(`{"channels":["account.%d"],"after":0}`, a)))
	}
	market := scope.Allows(auth.Market)
	for method, params := range map[string]string{"symbols.list": `{}`, "book.get": `{"sym":"SPY"}`,
		"trades.list": `{"sym":"SPY"}`, "subscribe": `{"channels":["book.SPY","book.SPY.100ms","orders.SPY","trades.SPY",` +
			`"ticker.SPY","candles.SPY.1s"]}`} {
		expect(market, w.call(method, params))
	}
	expect(true, w.call("ping", `{}`))
	expect(true, w.call("session.cancel_on_disconnect", `{"on":false}`))
}

// TestTokensOverWebSocket: without a token only ping is answered. A token is presented once per connection. An
// invalid token ends the connection, and so does the revocation of its token, after which nothing more is sent.
func TestTokensOverWebSocket(t *testing.T) {
	raced(t)
	t.Parallel()
	flags, _ := dataFlags(t)
	data := strings.TrimPrefix(flags[0], "--data=")
	scope, err := auth.ParseScope("account:7")
	require.NoError(t, err)
	token, entry, err := auth.Add(data, scope, time.Time{}, "")
	require.NoError(t, err)
	admin := tokensOf(t, data, "admin")["admin"]
	p := start(t, append(flags, "--auth")...)
	x := dial(t, p.xml)
	require.Contains(t, x.must(t, string(wire.AppendAuth(nil, admin))), "authorized")
	require.NotContains(t, x.must(t, `<create><account id="7" balance="70"/><account id="8" balance="80"/>`+
		`<symbol sym="SPY"/></create>`), "<error")
	office := dialWS(t, p.http, admin)
	office.must("order.place", `{"account":"8","sym":"SPY","amount":"1","limit":"1"}`)
	office.must("order.get", `{"account":"8","id":1}`)
	office.refused("unknown_order", "order.get", `{"account":"7","id":1}`)

	w := dialWS(t, p.http, "")
	w.must("ping", `{}`)
	for name := range described.At("operations") {
		if !strings.Contains(name, ".") || name == "auth" {
			continue
		}
		w.refused("unauthenticated", name, `{}`)
	}
	w.refused("unauthenticated", "subscribe", `{"channels":["book.SPY"]}`)
	require.Equal(t, map[string]any{"required": true, "scope": "account", "accounts": []any{"7"}},
		w.must("auth", fmt.Sprintf(`{"token":%q}`, token)))
	w.refused("already_authenticated", "auth", fmt.Sprintf(`{"token":%q}`, token))
	require.Equal(t, "70", w.must("account.get", `{}`)["balance"], "its one account may be left out")
	w.refused("not_allowed", "account.get", `{"account":"8"}`)

	liar := dialWS(t, p.http, "")
	liar.refused("unauthenticated", "auth", fmt.Sprintf(`{"token":"%s"}`, token[:len(token)-4]+"0000"))
	code, _ := liar.closed()
	require.Equal(t, 4001, code)

	w.must("subscribe", `{"channels":["account.7","book.SPY"]}`)
	require.NoError(t, auth.Revoke(data, entry.ID))
	code, reason := w.closed()
	require.Equal(t, 4001, code)
	require.Contains(t, reason, "token")
}
