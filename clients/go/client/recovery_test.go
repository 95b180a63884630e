package client_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
)

// TestALostAnswerIsAskedForAgain: the exchange executes each command, its reply is lost, and the exchange is killed
// before the client resends. With a ref the command is executed once, and the caller notices nothing.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	x := startExchange(t)
	direct := dial(t, x.addr, client.Options{PauseMin: time.Millisecond})
	market(t, direct)
	killed := make(chan struct{})
	var lose atomic.Bool
	p := startProxy(t, x.addr, func(int) (up, down int) {
		if lose.Swap(false) {
			return -1, 0
		}
		return -1, -1
	}, func() { // the reply was sent, so its command is durable
		x.kill()
		killed <- struct{}{}
	})
	restart := func() {
		<-killed
		x.start(t)
	}
	for _, step := range []struct {
		name string
		do   func(c *client.Client) error
	}{
		{"an order", func(c *client.Client) error {
			id, err := c.Sell(background, "2", "SPY", number("10"), number("20"))
			if err == nil && id != 1 {
				err = fmt.Errorf("order %v", id)
			}
			return err
		}},
		{"an account", func(c *client.Client) error { return c.OpenAccount(background, "3", number("100")) }},
		{"a placement", func(c *client.Client) error { return c.Place(background, "QQQ", "3", number("5")) }},
	} {
		lose.Store(true)
		c, err := client.Dial(background, p.addr, client.Options{AutoRef: true, PauseMin: time.Millisecond})
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- step.do(c) }()
		restart()
		require.NoError(t, <-done, step.name)
		require.NoError(t, c.Close())
	}
	status, err := direct.Query(background, "2", 1)
	require.NoError(t, err)
	require.Equal(t, number("10"), status.Open)
	_, err = direct.Query(background, "2", 2)
	require.ErrorContains(t, err, "there is no order 2")
	_, err = direct.Sell(background, "3", "QQQ", number("6"), number("1"))
	require.ErrorContains(t, err, "account 3 has 5", "the shares were placed once")
}

// TestRefsNameOrders: an order can be queried and canceled by its ref, and placing it a second time has no
// effect.
func TestRefsNameOrders(t *testing.T) {
	c := dial(t, startExchange(t).addr, client.Options{})
	market(t, c)
	order := client.Sell("2", "SPY", number("10"), number("20")).WithRef("a:1")
	for range 2 {
		id, err := c.Order(background, order)
		require.NoError(t, err)
		require.EqualValues(t, 1, id)
	}
	status, err := c.QueryRef(background, "2", "a:1")
	require.NoError(t, err)
	require.Equal(t, client.Status{Order: 1, Open: number("10")}, status)
	order.Shares = number("11")
	_, err = c.Order(background, order)
	require.ErrorContains(t, err, "a:1")
	require.ErrorAs(t, err, new(*client.Refused))
	status, err = c.CancelRef(background, "2", "a:1")
	require.NoError(t, err)
	require.Equal(t, number("10"), status.Canceled)
	_, err = c.QueryRef(background, "2", "unknown")
	require.ErrorAs(t, err, new(*client.Refused))
}

// storm has callers sell different numbers of shares through connections that break at random. It returns each
// order's error, by the number of shares.
func storm(t *testing.T, addr string, o client.Options, seed uint64) map[int64]error {
	r := rand.New(rand.NewPCG(seed, 1))
	p := startProxy(t, addr, func(int) (up, down int) { return r.IntN(6000), r.IntN(6000) }, func() {})
	o.Depth, o.PauseMin, o.PauseMax = 8, time.Millisecond, 4*time.Millisecond
	c, err := client.Dial(background, p.addr, o)
	require.NoError(t, err)
	var mu sync.Mutex
	outcomes := map[int64]error{}
	var callers sync.WaitGroup
	const each = 60
	for n := range int64(5) {
		callers.Go(func() {
			for i := range int64(each) {
				shares := n*each + i + 1
				_, err := c.Sell(background, "2", "SPY", client.Whole(shares), number("1000"))
				mu.Lock()
				outcomes[shares] = err
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	require.NoError(t, c.Close())
	return outcomes
}

// placed counts the orders on the exchange, by their shares.
func placed(t *testing.T, addr string) map[int64]int {
	c := dial(t, addr, client.Options{})
	found := map[client.Decimal]int{}
	for id := client.OrderID(1); ; id++ {
		status, err := c.Query(background, "2", id)
		if errors.As(err, new(*client.Refused)) {
			break
		}
		require.NoError(t, err)
		found[status.Open]++
	}
	orders := map[int64]int{}
	for n := range int64(400) {
		if found[client.Whole(n)] > 0 {
			orders[n] = found[client.Whole(n)]
		}
	}
	require.Len(t, orders, len(found))
	return orders
}

// TestBrokenConnectionsAreToldTruly: without refs, an order that was answered exists, one reported as not done
// does not, one in doubt may or may not, and no order exists twice.
func TestBrokenConnectionsAreToldTruly(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := startExchange(t)
	market(t, dial(t, x.addr, client.Options{}))
	unknown := 0
	outcomes := storm(t, x.addr, client.Options{}, seed)
	orders := placed(t, x.addr)
	for shares, err := range outcomes {
		switch {
		case err == nil:
			require.Equal(t, 1, orders[shares], "%d shares: answered", shares)
		case client.MaybeDone(err):
			require.ErrorAs(t, err, new(*client.Broken))
			require.LessOrEqual(t, orders[shares], 1, "%d shares", shares)
			unknown++
		default:
			require.Zero(t, orders[shares], "%d shares: %v", shares, err)
		}
	}
	require.Positive(t, unknown, "connections did break")
	t.Logf("%d orders, %d of them unknown", len(outcomes), unknown)
}

// TestWithRefsBrokenConnectionsAreNotNoticed: every order is placed exactly once.
func TestWithRefsBrokenConnectionsAreNotNoticed(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := startExchange(t)
	market(t, dial(t, x.addr, client.Options{}))
	outcomes := storm(t, x.addr, client.Options{AutoRef: true}, seed)
	orders := placed(t, x.addr)
	for shares, err := range outcomes {
		if err != nil { // a frame may fail in each of its tries
			require.True(t, client.MaybeDone(err), "%v", err)
			require.LessOrEqual(t, orders[shares], 1)
			delete(outcomes, shares)
			continue
		}
		require.Equal(t, 1, orders[shares], "%d shares", shares)
	}
	require.Greater(t, len(outcomes), 280)
}

// TestARestartIsNotNoticed: callers continue while the exchange is killed and restarted.
func TestARestartIsNotNoticed(t *testing.T) {
	x := startExchange(t)
	c := dial(t, x.addr, client.Options{AutoRef: true, PauseMin: 5 * time.Millisecond})
	market(t, c)
	var callers sync.WaitGroup
	stop := make(chan struct{})
	counts := make([]int, 6)
	failed := make([]error, len(counts))
	begun := make(chan struct{}, 1000)
	for n := range counts {
		callers.Go(func() {
			for failed[n] == nil {
				select {
				case <-stop:
					return
				default:
				}
				_, failed[n] = c.Sell(background, "2", "SPY", client.Whole(int64(n+1)), number("1000"))
				counts[n]++
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 2 {
		for range 50 {
			<-begun
		}
		x.kill()
		x.start(t)
		for len(begun) > 0 {
			<-begun
		}
	}
	<-begun // wait until after the second restart
	close(stop)
	callers.Wait()
	total := 0
	for n := range counts {
		require.NoError(t, failed[n])
		total += counts[n]
	}
	require.Equal(t, total, countOrders(t, x.addr, total))
}

// countOrders counts the orders. It tolerates gaps in the order ids, which crashes leave.
func countOrders(t *testing.T, addr string, expected int) (n int) {
	c := dial(t, addr, client.Options{})
	const gaps = 5000
	for first := 1; first < expected+gaps; first += 100 {
		var queries []client.Command
		for id := range 100 {
			queries = append(queries, client.Query("2", client.OrderID(first+id)))
		}
		results, err := c.Do(background, queries...)
		require.NoError(t, err)
		for i := range results {
			if results[i].Refused == nil {
				n++
			}
		}
	}
	return n
}
