package rpctest

import (
	"cmp"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Book is a book that a client builds from the channel's messages.
type Book struct {
	T          testing.TB
	Seq        float64           // record of the newest message
	Bids, Asks map[string]string // shares by price
	More       bool              // the next message continues the last one
}

// Apply applies a message of a book channel, and checks its place in the chain and its checksum.
func (b *Book) Apply(data map[string]any) {
	if data["type"] == "snapshot" {
		if !b.More {
			b.Bids, b.Asks = make(map[string]string), make(map[string]string)
		}
	} else if !b.More {
		require.Equal(b.T, b.Seq, data["prev"], "the chain")
	}
	b.Seq = data["seq"].(float64)
	for side, of := range map[string]map[string]string{"bids": b.Bids, "asks": b.Asks} {
		for _, level := range data[side].([]any) {
			price, shares := level.([]any)[0].(string), level.([]any)[1].(string)
			if of[price] = shares; shares == "0" {
				delete(of, price)
			}
		}
	}
	if b.More = data["more"] == true; !b.More {
		require.Equal(b.T, float64(b.Checksum()), data["checksum"], "at %v", b.Seq)
	}
}

// sorted returns the levels of a side, best first.
func sorted(side map[string]string, highest bool) (levels [][2]string) {
	price := func(s string) float64 {
		f, _ := strconv.ParseFloat(s, 64)
		return f
	}
	for _, p := range slices.SortedFunc(maps.Keys(side), func(a, b string) int {
		if highest {
			a, b = b, a
		}
		return cmp.Compare(price(a), price(b))
	}) {
		levels = append(levels, [2]string{p, side[p]})
	}
	return levels
}

// Checksum returns the checksum of the ten best levels of each side.
func (b *Book) Checksum() uint32 {
	var text strings.Builder
	for _, levels := range [][][2]string{sorted(b.Asks, false), sorted(b.Bids, true)} {
		for _, l := range levels[:min(10, len(levels))] {
			text.WriteString(l[0] + ":" + l[1] + ";")
		}
	}
	return crc32.ChecksumIEEE([]byte(text.String()))
}

// Orders holds the open orders of a symbol, by id, which a client builds from the channel's messages.
type Orders struct {
	T       testing.TB
	Seq     float64 // record of the newest message
	resting map[float64]*restingOrder
}

type restingOrder struct {
	buys          bool
	price, shares string
}

// Apply applies a message of the orders channel, and checks its place in the chain.
func (l *Orders) Apply(data map[string]any) {
	if data["type"] == "snapshot" {
		l.resting = make(map[float64]*restingOrder)
		for side, buys := range map[string]bool{"bids": true, "asks": false} {
			for _, e := range data[side].([]any) {
				e := e.([]any)
				l.resting[e[0].(float64)] = &restingOrder{buys, e[1].(string), e[2].(string)}
			}
		}
		l.Seq = data["seq"].(float64)
		return
	}
	require.Equal(l.T, l.Seq, data["prev"], "the chain")
	l.Seq = data["seq"].(float64)
	for _, c := range data["changes"].([]any) {
		c := c.(map[string]any)
		id := c["id"].(float64)
		switch c["op"] {
		case "add":
			l.resting[id] = &restingOrder{c["side"] == "buy", c["price"].(string), c["shares"].(string)}
			continue
		case "replace", "delete":
			require.Contains(l.T, l.resting, id)
			delete(l.resting, id)
		case "fill", "reduce":
			require.Contains(l.T, l.resting, id)
			if l.resting[id].shares = c["open"].(string); c["open"] == "0" {
				delete(l.resting, id)
			}
		}
	}
}

// Levels returns the open shares at each price.
func (l *Orders) Levels() (bids, asks map[string]string) {
	bids, asks = make(map[string]string), make(map[string]string)
	for _, o := range l.resting {
		of := asks
		if o.buys {
			of = bids
		}
		sum, _ := strconv.Atoi(of[o.price])
		one, err := strconv.Atoi(o.shares)
		require.NoError(l.T, err)
		of[o.price] = strconv.Itoa(sum + one)
	}
	return bids, asks
}

// LevelsOf returns a message's levels as shares by price.
func LevelsOf(levels any) map[string]string {
	all := make(map[string]string)
	for _, l := range levels.([]any) {
		all[l.([]any)[0].(string)] = l.([]any)[1].(string)
	}
	return all
}
