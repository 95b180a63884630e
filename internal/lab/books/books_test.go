package books

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/clients/go/client"
	"outcry/clients/go/stream"
)

var background = context.Background()

// number parses a decimal.
func number(text string) client.Decimal { return client.MustDecimal(text) }

func level(price, shares string) stream.Level {
	return stream.Level{Price: number(price), Shares: number(shares)}
}

// fill returns a buy of two shares at three dollars by order 7.
func fill(n uint64) stream.Fill {
	return stream.Fill{Fill: n, Order: 7, Symbol: "S", Side: "buy", Shares: number("2"), Price: number("3")}
}

// story returns an account that has bought four of ten shares, and the event of two more.
func story(t *testing.T) (*account, *stream.Event) {
	a := newAccount(&Watchers{}, "1")
	bought := func(executed, open, balance, held, shares string) *stream.Event {
		return &stream.Event{Balance: client.Cash(balance), Held: client.Cash(held),
			Positions: []stream.Position{{Symbol: "S", Shares: number(shares)}},
			Orders: []stream.Order{{ID: 7, Symbol: "S", Amount: number("10"), State: "open", Open: number(open),
				Executed: number(executed)}}}
	}
	begin := bought("0", "10", "70", "30", "1")
	begin.N = 1
	require.NoError(t, a.receive(background, nil, &stream.Update{Account: begin, Snapshot: true}))
	next := bought("4", "6", "70", "18", "5")
	next.N, next.Fills, next.LastFill = 2, []stream.Fill{fill(1), fill(2)}, 2
	require.NoError(t, a.receive(background, nil, &stream.Update{Account: next}))
	last := bought("6", "4", "70", "12", "7")
	last.N, last.Fills, last.LastFill = 3, []stream.Fill{fill(3)}, 3
	return a, last
}

func TestAnEventThatDoesNotAddUpIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *stream.Event)
		says   string
	}{
		"nothing":        {func(*stream.Event) {}, ""},
		"a gap":          {func(e *stream.Event) { e.N = 4 }, "event 4 follows event 2"},
		"twice":          {func(e *stream.Event) { e.N = 2 }, "event 2 follows event 2"},
		"a fill twice":   {func(e *stream.Event) { e.Fills[0].Fill = 2 }, "fill 2 follows fill 2"},
		"a fill lost":    {func(e *stream.Event) { e.Fills[0].Fill = 4 }, "fill 4 follows fill 2"},
		"no fill":        {func(e *stream.Event) { e.Fills = nil }, "executed 6, but its fills add up to 4"},
		"money":          {func(e *stream.Event) { e.Held = "12.0000000000000001" }, "the fills leave 82"},
		"shares":         {func(e *stream.Event) { e.Positions[0].Shares = number("8") }, "the fills move 2"},
		"no position":    {func(e *stream.Event) { e.Positions = nil }, "that it does not list"},
		"no order":       {func(e *stream.Event) { e.Orders = nil }, "fills of orders that it does not list"},
		"another amount": {func(e *stream.Event) { e.Orders[0].Open = number("5") }, "is 10, but its parts add up to 11"},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := story(t)
			c.change(e)
			err := a.receive(background, nil, &stream.Update{Account: e})
			if c.says == "" {
				require.NoError(t, err)
				require.NoError(t, a.compare(&accountTruth{"70", "12", 3, map[client.OrderID]client.Decimal{7: number("4")},
					map[client.OrderID]client.Decimal{7: number("6")}}))
				return
			}
			require.ErrorIs(t, err, errWrong)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestAnAccountThatDiffersFromTheTablesIsNoticed(t *testing.T) {
	right := func() *accountTruth {
		return &accountTruth{"70", "18.0", 2, map[client.OrderID]client.Decimal{7: number("6")},
			map[client.OrderID]client.Decimal{7: number("4")}}
	}
	a, _ := story(t)
	require.NoError(t, a.compare(right()))
	for says, change := range map[string]func(*accountTruth){
		"newest fill is 2, the tables have 3": func(t *accountTruth) { t.fills = 3 },
		"70 free and 18 held":                 func(t *accountTruth) { t.held = "18.0000000000000001" },
		"open of order 7: 6":                  func(t *accountTruth) { delete(t.open, 7) },
		"open of order 8: 0":                  func(t *accountTruth) { t.open[8] = number("1") },
		"executed of order 7: 4":              func(t *accountTruth) { t.executed[7] = number("5") },
	} {
		want := right()
		change(want)
		require.ErrorContains(t, a.compare(want), says)
	}
}

func TestDifferencesFollowEachOther(t *testing.T) {
	w := &Watchers{o: Options{Symbols: []string{"S"}}}
	d := &depth{w: w, books: map[string]*diffed{}}
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = fmt.Fprintf(w, `{"lastUpdateId":%d,"bids":[["5.00000000","1.00000000"]],"asks":[]}`, 10*asked)
	}))
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	b, err := d.snapshot(background, addr, "S")
	require.NoError(t, err)
	apply := func(first, last uint64, shares string) error {
		b, err = d.apply(background, addr, b, &difference{Symbol: "SUSD", First: first, Last: last,
			Bids: []stream.Level{level("5", shares)}})
		return err
	}
	require.NoError(t, apply(3, 10, "7"), "it ends before the snapshot")
	require.Equal(t, number("1"), b.Bids[0].Shares)
	require.NoError(t, apply(14, 20, "8"), "the snapshot is older than the stream, and asked for again")
	require.Equal(t, 2, asked)
	require.Equal(t, number("1"), b.Bids[0].Shares)
	require.NoError(t, apply(16, 21, "3"))
	require.NoError(t, apply(22, 22, "4"))
	d.publish(map[string]*diffed{"S": b})
	require.NoError(t, d.compare("S", &stream.Book{Bids: []stream.Level{level("5", "4")}}))
	require.ErrorContains(t, d.compare("S", &stream.Book{Bids: []stream.Level{level("5", "3")}}), "bids 1 is {5 4}")
	require.ErrorContains(t, d.compare("S", &stream.Book{}), "1 bids, the tables have 0")
	require.ErrorContains(t, apply(24, 25, "3"), "U 24 and u 25 follow u 22")
	require.ErrorContains(t, apply(22, 25, "3"), "U 22 and u 25 follow u 22")
}

func TestChangesOfOrdersHaveToFit(t *testing.T) {
	for changes, says := range map[string]string{
		`{"op":"fill","id":1,"trade":1,"shares":"2","open":"3"},{"op":"reduce","id":1,"shares":"1","open":"2"}`: "",
		`{"op":"add","id":9,"side":"sell","price":"99","shares":"2"},{"op":"delete","id":1}`:                    "",
		`{"op":"fill","id":1,"trade":1,"shares":"2","open":"4"}`:                                                "had 5",
		`{"op":"delete","id":2}`:                                    "delete of order 2; whether the book has that",
		`{"op":"add","id":1,"side":"buy","price":"1","shares":"1"}`: "add of order 1; whether the book has that order: true",
		`{"op":"swap","id":1}`:                                      `unknown op "swap"`,
	} {
		var x, begin ordersChange
		require.NoError(t, json.Unmarshal([]byte(`{"bids":[[1,"5","5"]],"asks":[]}`), &begin))
		require.NoError(t, json.Unmarshal([]byte(`{"changes":[`+changes+`]}`), &x))
		to := map[client.OrderID]resting{}
		require.NoError(t, begin.apply(to))
		require.Equal(t, map[client.OrderID]resting{1: {true, number("5"), number("5")}}, to)
		if err := x.apply(to); says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

func TestOrdersAddUpToBooks(t *testing.T) {
	tables := &truth{books: map[string]*stream.Book{}, orders: map[string]map[client.OrderID]resting{}}
	tables.addResting("S", 1, resting{true, number("5"), number("1")})
	tables.addResting("S", 2, resting{true, number("6"), number("1")})
	tables.addResting("S", 3, resting{true, number("5"), number("2")})
	tables.addResting("S", 4, resting{false, number("7"), number("2")})
	tables.addUp()
	require.Equal(t, &stream.Book{Bids: []stream.Level{level("6", "1"), level("5", "3")},
		Asks: []stream.Level{level("7", "2")}}, tables.books["S"])
}
