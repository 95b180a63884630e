package jsontext

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
)

// TestObjectsAreThoseOfEncodingJSON writes random objects, and compares their bytes with those of encoding/json.
func TestObjectsAreThoseOfEncodingJSON(t *testing.T) {
	type object struct {
		I     int64           `json:"i"`
		U     uint64          `json:"u"`
		W     exchange.Symbol `json:"w"`
		B     bool            `json:"b"`
		D     string          `json:"d"`
		T     string          `json:"t"`
		Words []string        `json:"words"`
		Inner struct{}        `json:"inner"`
		Books [][2]string     `json:"books"`
		Raw   json.RawMessage `json:"raw"`
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching("[A-Za-z0-9_-]{0,9}")
		o := object{I: rapid.Int64().Draw(t, "i"), U: rapid.Uint64().Draw(t, "u"), B: rapid.Bool().Draw(t, "b"),
			W: exchange.Symbol(word.Draw(t, "w")), T: string(rapid.SliceOf(rapid.Byte()).Draw(t, "t")),
			Words: rapid.SliceOf(word).Draw(t, "words"), Books: [][2]string{}, Raw: []byte(`[1,{}]`)}
		price := exchange.Price(rapid.Int64().Draw(t, "price"))
		o.D = price.String()
		levels := rapid.MapOfN(rapid.Custom(func(t *rapid.T) exchange.Price {
			return exchange.Price(rapid.Int64Min(1).Draw(t, "p"))
		}), rapid.Just(exchange.Shares(5)), 0, 3).Draw(t, "levels")
		sorted := slices.Sorted(maps.Keys(levels))
		most := rapid.IntRange(0, 3).Draw(t, "most")
		for _, p := range sorted[:min(most, len(sorted))] {
			o.Books = append(o.Books, [2]string{p.String(), "0.00000005"})
		}

		b := Word(Number(Number([]byte{'{'}, "i", o.I), "u", o.U), "w", o.W)
		b = Words(Text(Decimal(Bool(b, "b", o.B), "d", price), "t", o.T), "words", o.Words)
		b = append(Name(b, "inner"), '{', '}')
		b = Levels(Name(b, "books"), func(yield func(exchange.Price, exchange.Shares) bool) {
			for _, p := range sorted {
				if !yield(p, 5) {
					return
				}
			}
		}, most, AppendLevel)
		b = append(Raw(b, "raw", o.Raw), '}')
		want, err := json.Marshal(o)
		require.NoError(t, err)
		require.Equal(t, string(want), string(b))
	})
}

// TestWritingAllocatesNothing writes into a buffer that is large enough.
func TestWritingAllocatesNothing(t *testing.T) {
	b, words := make([]byte, 0, 1024), []string{"a", "b"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b = Number(Number(append(b[:0], '{'), "i", int64(math.MinInt64)), "u", uint64(math.MaxUint64))
		b = Decimal(Word(Bool(b, "b", true), "w", exchange.Symbol("S")), "d", exchange.Notional(1e15, 1e15))
		b = AppendLevel(Name(Words(b, "words", words), "level"), exchange.Price(1e15), exchange.Shares(1e15))
		b = Raw(b, "raw", []byte("{}"))
	}))
}
