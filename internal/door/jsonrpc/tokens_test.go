package jsonrpc_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/rpctest"
)

// secretOf returns digits that appear in all private data of an account and nowhere else: in its refs, in its
// balance, and in its position in a symbol of its own.
func secretOf(account int) string { return fmt.Sprintf("%d%[1]d%[1]d%[1]d%[1]d%[1]d%[1]d", account) }

// TestNothingPrivateOfAnotherAccountIsSent lets three accounts trade with each other at random. With each kind of
// token, a client calls every method for every account and subscribes to every channel, repeatedly. What the token
// does not allow is refused, and no message that the client receives contains anything private of other accounts.
func TestNothingPrivateOfAnotherAccountIsSent(t *testing.T) {
	budget.SkipRaced(t, "it is long, and shorter tests use the same parts")
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := start(t, 0, "account:1", "account:2", "account:1,3", "account:*", "read", "operate", "health")
	created := ""
	for a := 1; a <= 3; a++ {
		created += fmt.Sprintf(`<account id="%d" balance="%s.5"/>`, a, secretOf(a))
	}
	created += `<symbol sym="SPY">`
	for a := 1; a <= 3; a++ {
		created += fmt.Sprintf(`<account id="%d">%s</account>`, a, secretOf(a))
	}
	s.create(created + "</symbol>")

	trading := make(chan struct{})
	go func() {
		defer close(trading)
		tradeAtRandom(t, rpctest.Dial(t, s.http, s.tokens["admin"]), rand.New(rand.NewPCG(seed, 0)))
	}()
	var clients sync.WaitGroup
	for text, token := range s.tokens {
		scope, err := auth.ParseScope(text)
		require.NoError(t, err)
		clients.Go(func() { pry(t, rpctest.Dial(t, s.http, token), scope, trading) })
	}
	clients.Wait()
	<-trading
}

// tradeAtRandom lets the accounts trade, with refs that contain their secrets.
func tradeAtRandom(t *testing.T, w *rpctest.Conn, random *rand.Rand) {
	for i := range 300 {
		a := 1 + random.IntN(3)
		amount := 1 + random.IntN(3)
		if random.IntN(2) == 0 {
			amount = -amount
		}
		w.Must("order.place", fmt.Sprintf(`{"account":"%d","sym":"SPY","amount":"%d","limit":"%d","ref":"r%s-%d"}`,
			a, amount, 5+random.IntN(5), secretOf(a), i))
	}
}

// pry requests everything with one token until trading has ended, and then once more.
func pry(t *testing.T, w *rpctest.Conn, scope auth.Scope, trading <-chan struct{}) {
	var foreign []string
	for a := 1; a <= 3; a++ {
		if !scope.ActsFor(accountID(a)) {
			foreign = append(foreign, secretOf(a))
		}
	}
	w.Inspect = func(text string) {
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
		w.Events = nil
	}
}

func pryOnce(t *testing.T, w *rpctest.Conn, scope auth.Scope) {
	expect := func(allowed bool, a rpctest.Answer) {
		if !allowed {
			require.NotNil(t, a.Error, "scope %s: %s", scope, a.Text)
			require.Equal(t, "not_allowed", a.Error.Data.Reason, a.Text)
		} else if a.Error != nil {
			require.NotContains(t, []string{"not_allowed", "unauthenticated"}, a.Error.Data.Reason, "%s: %s", scope, a.Text)
		}
	}
	for a := 1; a <= 3; a++ {
		mine := scope.ActsFor(accountID(a))
		for method, params := range map[string]string{
			"account.get": "", "orders.open": "", "fills.list": "", "order.get": `,"id":1`, "order.cancel": `,"id":2`,
			"order.amend": `,"id":3,"limit":"6"`, "order.cancel_all": `,"sym":"QQQ"`, "cancel_after": `,"seconds":0`,
			"order.place": `,"sym":"QQQ","amount":"1","limit":"1"`,
		} {
			expect(mine, w.Call(method, fmt.Sprintf(`{"account":"%d"%s}`, a, params)))
		}
		for other := 1; other <= 3; other++ { // another account's ref under this account's id
			id := fmt.Sprintf(`{"account":"%d","ref":"r%s-1"}`, a, secretOf(other))
			if other != a && mine && scope.ActsFor(accountID(other)) {
				expect(true, w.Call("order.get", id))
			}
		}
		expect(mine, w.Call("subscribe", fmt.Sprintf(`{"channels":["account.%d"]}`, a)))
		expect(mine, w.Call("subscribe", fmt.Sprintf(`{"channels":["account.%d"],"after":0}`, a)))
	}
	market := scope.Allows(auth.Market)
	for method, params := range map[string]string{"symbols.list": `{}`, "book.get": `{"sym":"SPY"}`,
		"trades.list": `{"sym":"SPY"}`, "subscribe": `{"channels":["book.SPY","book.SPY.100ms","orders.SPY","trades.SPY",` +
			`"ticker.SPY","candles.SPY.1s"]}`} {
		expect(market, w.Call(method, params))
	}
	expect(true, w.Call("ping", `{}`))
	expect(true, w.Call("session.cancel_on_disconnect", `{"on":false}`))
}

// TestTokensOverWebSocket: without a token only ping is answered. A token is presented once per connection. An
// invalid token ends the connection, and so does the revocation of its token, after which nothing more is sent.
func TestTokensOverWebSocket(t *testing.T) {
	t.Parallel()
	s := start(t, 0, "account:7")
	token := s.tokens["account:7"]
	s.create(`<account id="7" balance="70"/><account id="8" balance="80"/><symbol sym="SPY"/>`)
	office := rpctest.Dial(t, s.http, s.tokens["admin"])
	office.Must("order.place", `{"account":"8","sym":"SPY","amount":"1","limit":"1"}`)
	office.Must("order.get", `{"account":"8","id":1}`)
	office.Refused("unknown_order", "order.get", `{"account":"7","id":1}`)

	w := s.dial()
	w.Must("ping", `{}`)
	for name := range rpctest.Described().At("operations") {
		if !strings.Contains(name, ".") || name == "auth" {
			continue
		}
		w.Refused("unauthenticated", name, `{}`)
	}
	w.Refused("unauthenticated", "subscribe", `{"channels":["book.SPY"]}`)
	require.Equal(t, map[string]any{"required": true, "scope": "account", "accounts": []any{"7"}},
		w.Must("auth", fmt.Sprintf(`{"token":%q}`, token)))
	w.Refused("already_authenticated", "auth", fmt.Sprintf(`{"token":%q}`, token))
	require.Equal(t, "70", w.Must("account.get", `{}`)["balance"], "its one account may be left out")
	w.Refused("not_allowed", "account.get", `{"account":"8"}`)

	liar := s.dial()
	liar.Refused("unauthenticated", "auth", fmt.Sprintf(`{"token":"%s"}`, token[:len(token)-4]+"0000"))
	code, _ := liar.Closed()
	require.Equal(t, 4001, code)

	w.Must("subscribe", `{"channels":["account.7","book.SPY"]}`)
	require.NoError(t, auth.Revoke(s.data, s.grant(token).ID))
	code, reason := w.Closed()
	require.Equal(t, 4001, code)
	require.Contains(t, reason, "token")
}

// TestEachWrongTokenIsLogged: as over TCP and HTTP, with the client's address and the reason, and without the secret.
// Clients that guess are slowed down, and the log with them.
func TestEachWrongTokenIsLogged(t *testing.T) {
	t.Parallel()
	s := start(t, 0, "read")
	wrong := s.tokens["read"][:len(s.tokens["read"])-4] + "0000"
	const said = `level=INFO msg="a connection presented no valid token" client=127.0.0.1:`
	slowed := 0
	for n := 1; slowed == 0; n++ {
		require.Less(t, n, 100)
		w := s.dial()
		w.Refused("unauthenticated", "auth", fmt.Sprintf(`{"token":"%s"}`, wrong))
		w.Closed()
		require.Len(t, s.log.lines(said), n)
		slowed = len(s.log.lines("slowed=true"))
	}
	require.Len(t, s.log.lines(said), len(s.log.lines("error=\"token "+s.grant(s.tokens["read"]).ID+": ")))
	require.Empty(t, s.log.lines(wrong))
	s.dial().Must("auth", fmt.Sprintf(`{"token":%q}`, s.tokens["read"]))
	require.Len(t, s.log.lines("slowed=true"), slowed, "a valid token is not logged")
}
