package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
)

func TestTheFirstTrade(t *testing.T) {
	c := dial(t, startExchange(t).addr, client.Options{})
	require.NoError(t, c.OpenAccount(background, "1", number("20000")))
	require.NoError(t, c.OpenAccount(background, "2", client.Decimal{}))
	require.NoError(t, c.MakeSymbol(background, "QQQ"))
	require.NoError(t, c.MakeSymbol(background, "QQQ"), "it is there already")
	require.NoError(t, c.Place(background, "SPY", "2", number("500")))

	sold, err := c.Sell(background, "2", "SPY", number("100"), number("123.45"))
	require.NoError(t, err)
	require.EqualValues(t, 1, sold)
	began := time.Now().Add(-time.Second)
	bought, err := c.Buy(background, "1", "SPY", number("40.5"), number("150"))
	require.NoError(t, err)
	require.EqualValues(t, 2, bought)

	status, err := c.Query(background, "1", bought)
	require.NoError(t, err)
	require.Len(t, status.Executed, 1)
	at := status.Executed[0].Time
	require.WithinRange(t, at, began.Truncate(time.Second), time.Now())
	require.Equal(t, client.Status{Order: 2,
		Executed: []client.Execution{{Shares: number("40.5"), Price: number("123.45"), Time: at}}}, status)
	require.Equal(t, number("40.5"), status.Filled())

	status, err = c.Cancel(background, "2", sold)
	require.NoError(t, err)
	require.Equal(t, number("59.5"), status.Canceled)
	require.WithinRange(t, status.CanceledAt, at, time.Now())
	require.Equal(t, client.Decimal{}, status.Open)
	require.Equal(t, number("40.5"), status.Filled())

	for want, err := range map[string]error{
		"order 1 has nothing open: it was canceled before": second(c.Cancel(background, "2", sold)),
		"there is no order 99":                             second(c.Query(background, "2", 99)),
		"account 1 already exists":                         c.OpenAccount(background, "1", number("5")),
		"there is no account 3":                            c.Place(background, "SPY", "3", number("5")),
		"insufficient shares: selling 501 of SPY, account 2 has 459.5": second(
			c.Sell(background, "2", "SPY", number("501"), number("1"))),
		`account id "x" is not made of digits`: second(
			c.Sell(background, "x", "SPY", number("1"), number("1"))),
		"insufficient funds: buying 1 at 99999 needs 99999, account 1 has 15000.275": second(
			c.Buy(background, "1", "SPY", number("1"), number("99999"))),
	} {
		var refused *client.Refused
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Text, want)
		require.False(t, client.MaybeDone(err))
		require.Contains(t, err.Error(), refused.Sent.String())
	}
}

func second[T any](_ T, err error) error { return err }

func TestDoAnswersEachCommandInItsPlace(t *testing.T) {
	c := dial(t, startExchange(t).addr, client.Options{})
	market(t, c)
	results, err := c.Do(background, client.Sell("2", "SPY", number("10"), number("100")), client.Cancel("2", 99),
		client.Query("2", 1), client.Cancel("2", 1), client.Query("2", 1))
	require.NoError(t, err)
	require.Len(t, results, 5)
	require.EqualValues(t, 1, results[0].Order)
	require.EqualError(t, results[1].Err(), "client: account 2 cancels order 99: refused: there is no order 99")
	require.Equal(t, number("10"), results[2].Status.Open)
	require.Equal(t, number("10"), results[3].Status.Canceled)
	require.Equal(t, results[3].Status, results[4].Status)
	for i, command := range []client.Command{client.Sell("2", "SPY", number("10"), number("100")),
		client.Cancel("2", 99)} {
		require.Equal(t, command, results[i].Command)
	}
}

func TestFramesOfOneGoroutineTakeEffectInTheirOrder(t *testing.T) {
	c := dial(t, startExchange(t).addr, client.Options{Depth: 16})
	market(t, c)
	var calls []*client.Call
	const orders = 200
	for n := range orders {
		sent, err := c.Send(background, client.Sell("2", "SPY", number("1"), client.Whole(int64(n+1))))
		require.NoError(t, err)
		asked, err := c.Send(background, client.Query("2", client.OrderID(n+1)))
		require.NoError(t, err)
		calls = append(calls, sent, asked)
	}
	for n := range orders {
		placed, err := calls[2*n].Wait(background)
		require.NoError(t, err)
		require.EqualValues(t, n+1, placed[0].Order)
		asked, err := calls[2*n+1].Wait(background)
		require.NoError(t, err)
		require.NoError(t, asked[0].Err(), "the query was sent behind the order")
		again, err := calls[2*n+1].Wait(background)
		require.NoError(t, err)
		require.Equal(t, asked, again, "Wait may be called again")
	}
}

func TestEachCallerGetsItsOwnAnswer(t *testing.T) {
	c := dial(t, startExchange(t).addr, client.Options{Depth: 7})
	market(t, c)
	var callers sync.WaitGroup
	const each = 50
	failed := make(chan error, 30)
	for n := range 30 {
		callers.Go(func() {
			failed <- func() error {
				for i := range each {
					price := client.Whole(int64(1000 + n*each + i))
					id, err := c.Sell(background, "2", "SPY", number("1"), price)
					if err != nil {
						return err
					}
					// The query must succeed: the order exists under the number that this caller received.
					if _, err := c.Query(background, "2", id); err != nil {
						return err
					}
					status, err := c.Cancel(background, "2", id)
					if err != nil || status.Order != id || status.Canceled != number("1") {
						return fmt.Errorf("order %v: %+v: %w", id, status, err)
					}
				}
				return nil
			}()
		})
	}
	callers.Wait()
	for range 30 {
		require.NoError(t, <-failed)
	}
}

func TestWrongCommandsAreNotSent(t *testing.T) {
	x := startExchange(t, "--max-frame=4096")
	c := dial(t, x.addr, client.Options{FrameBytesMax: 4096})
	market(t, c)
	long := make([]client.Command, 300)
	for i := range long {
		long[i] = client.Query("1", 12345)
	}
	one := number("1")
	for want, commands := range map[string][]client.Command{
		"there are no commands":                    nil,
		"kind 0":                                   {{}},
		"kind 14":                                  {{Kind: 14}},
		`"" is not an account`:                     {client.Query("", 1)},
		`"1\n" is not an account`:                  {client.Query("1\n", 1)},
		`"" is not a symbol`:                       {client.MakeSymbol("")},
		`"é" is not a symbol`:                      {client.Buy("1", "é", one, one)},
		"buys -1 SPY at 1: the number of shares":   {client.Buy("1", "SPY", one.Neg(), one)},
		"sells 0 SPY at 1: the number of shares":   {client.Sell("1", "SPY", client.Decimal{}, one)},
		`ref "a b" must have 1 to 64`:              {client.Buy("1", "SPY", one, one).WithRef("a b")},
		"a symbol cannot have a ref":               {client.MakeSymbol("SPY").WithRef("r")},
		"give either the number or the ref":        {client.Query("1", 1).WithRef("r")},
		"1 and 2 cannot be sent in one frame":      {client.Query("1", 1), client.Query("2", 1)},
		"A cannot be sent in one frame":            {client.Query("1", 1), client.MakeSymbol("A")},
		"bytes is over the limit of 4096":          long,
		`tif "ioc" is not one of GTC, IOC, FOK`:    {client.Buy("1", "SPY", one, one).With(client.Instructions{TIF: "ioc"})},
		`stp "x" is not one of newest`:             {client.Buy("1", "SPY", one, one).With(client.Instructions{STP: "x"})},
		`cod "x" is not yes or no`:                 {client.Buy("1", "SPY", one, one).With(client.Instructions{COD: "x"})},
		"it cannot have instructions":              {client.Query("1", 1).With(client.Instructions{Report: true})},
		"order 1: it cannot have instructions":     {client.Amend("1", 1, one, one).With(client.Instructions{Post: true})},
		"only an amend can have a new ref":         {client.Buy("1", "SPY", one, one).WithNewRef("r")},
		`new ref "a b" must have 1 to 64`:          {client.Amend("1", 1, one, one).WithNewRef("a b")},
		"cancels all orders: it cannot have a ref": {client.CancelAll("1", "").WithRef("r")},
		"1.5s is not a number of whole seconds":    {client.CancelAfter("1", 1500*time.Millisecond)},
		"amends the order with ref : give either":  {client.AmendRef("1", "", one, one)},
	} {
		_, err := c.Do(background, commands...)
		require.ErrorContains(t, err, want)
		require.False(t, client.MaybeDone(err))
	}
	_, err := c.Order(background, client.Query("1", 1))
	require.ErrorContains(t, err, "this is not an order")
	_, err = c.Query(background, "1", 1)
	require.ErrorAs(t, err, new(*client.Refused), "no order was placed")
}

func TestAClosedClientSaysSo(t *testing.T) {
	c := dial(t, exchangeAddr, client.Options{})
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err := c.Query(background, "1", 1)
	require.ErrorIs(t, err, client.ErrClosed)
}

func TestNoExchangeIsAnErrorOfDial(t *testing.T) {
	_, err := client.Dial(background, "127.0.0.1:1", client.Options{})
	require.ErrorContains(t, err, "connection refused")
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = client.Dial(ctx, "127.0.0.1:1", client.Options{})
	require.ErrorIs(t, err, context.Canceled)
}
