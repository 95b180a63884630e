package binance

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// text returns a decimal without its quotes.
func text[D jsontext.Exact](d D) string { return strings.Trim(string(appendDecimal(nil, d)), `"`) }

// TestDecimalsHaveEightDigitsAndMoreWhereTheValueHas: amounts of money have up to sixteen digits, and no digit is
// cut.
func TestDecimalsHaveEightDigitsAndMoreWhereTheValueHas(t *testing.T) {
	require.Equal(t, "100.00000000", text(exchange.Price(100_0000_0000)))
	require.Equal(t, "0.00000001", text(exchange.Shares(1)))
	require.Equal(t, "0.00000000", text(exchange.Position{}))
	require.Equal(t, "-1.50000000", text(exchange.Price(-1_5000_0000)))
	require.Equal(t, "0.0000000000000001", text(exchange.Notional(1, 1)))
	require.Equal(t, "0.0000000002", text(exchange.Notional(1000, 2000)), "zeros at the end are cut down to eight digits")

	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 10_000 {
		s, p := exchange.Shares(random.Int64N(1<<60)>>random.IntN(60)), exchange.Price(random.Int64N(1<<60)>>random.IntN(60))
		written := text(exchange.Notional(s, p))
		want := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(int64(s)), big.NewInt(int64(p))), big.NewInt(1e16))
		is, ok := new(big.Rat).SetString(written)
		require.True(t, ok && is.Cmp(want) == 0, "%s is not %s", written, want)
		_, fraction, _ := strings.Cut(written, ".")
		require.GreaterOrEqual(t, len(fraction), 8)
		require.NotContains(t, written, "e")
	}
}

// TestWhatIsNotADecimalIsRefusedByItsRule: each malformed value gets the error text that clients know.
func TestWhatIsNotADecimalIsRefusedByItsRule(t *testing.T) {
	for value, code := range map[string]int{
		"1": 0, "1.0": 0, "0001.50": 0, "1.123456780000": 0, "0.00000001": 0,
		"1e-05": -1100, "-1": -1100, "+1": -1100, "": -1100, ".5": -1100, "5.": -1100, "1,5": -1100, " 1": -1100,
		"1_0": -1100,
		"NaN": -1100, "111111111111111111111": -1100, "1.111111111111111111111": -1100,
		"1.123456789": -1111, "0": -1013, "0.00000000": -1013, "90000000000": -1013, "99999999999999999999": -1013,
	} {
		shares, problem := quantity("quantity", value)
		if code == 0 {
			require.Nil(t, problem, value)
			require.Positive(t, shares, value)
			continue
		}
		require.NotNil(t, problem, value)
		require.Equal(t, code, problem.Code, value)
		require.Equal(t, badRequest, problem.Status)
		_, problem = price("price", value)
		require.Equal(t, code, problem.Code, value)
	}
	_, problem := quantity("quantity", "1e5")
	require.Equal(t, `Illegal characters found in parameter 'quantity'; legal range is '^([0-9]{1,20})(\.[0-9]{1,20})?$'.`,
		problem.Text)
	_, problem = price("price", "1.000000001")
	require.Equal(t, "Parameter 'price' has too much precision.", problem.Text)
}

// TestNamesOfSymbolsThatClientsCannotWriteAreNotOffered: clients write all names in capitals.
func TestNamesOfSymbolsThatClientsCannotWriteAreNotOffered(t *testing.T) {
	for pair, want := range map[string]exchange.Symbol{"SPYUSD": "SPY", "A1USD": "A1", "USDUSD": "USD"} {
		sym, ok := symbolOf(pair)
		require.True(t, ok, pair)
		require.Equal(t, want, sym)
	}
	for _, pair := range []string{"", "USD", "SPY", "SPYEUR", "spyusd", "SpyUSD", "S.YUSD", "SPY/USD",
		strings.Repeat("A", 33) + "USD"} {
		_, ok := symbolOf(pair)
		require.False(t, ok, pair)
	}
	for name, want := range map[string]streamName{
		"spyusd@trade":         {kind: tradeStream},
		"spyusd@depth":         {kind: depthStream, every: time.Second},
		"spyusd@depth@100ms":   {kind: depthStream, every: 100 * time.Millisecond},
		"spyusd@depth@1000ms":  {kind: depthStream, every: time.Second},
		"spyusd@depth20@100ms": {kind: partialStream, levels: 20, every: 100 * time.Millisecond},
		"spyusd@kline_5m":      {kind: klineStream, interval: exchange.Candle5m, every: klineTime},
	} {
		n, ok := parseStream(name)
		require.True(t, ok, name)
		want.text, want.symbol = name, "SPY"
		require.Equal(t, want, n)
	}
	for _, name := range []string{"", "spyusd", "SPYUSD@trade", "spyusd@trades", "spyusd@depth7", "spyusd@depth@10ms",
		"spyusd@kline_3m", "spyusd@kline", "spyeur@trade", "@trade", "spyusd@depth5@",
		"\u017fpyu\u017fd@trade", "\u0131bmusd@trade"} {
		_, ok := parseStream(name)
		require.False(t, ok, name)
	}
}

// TestEveryFormOfAStreamIsOne: every stream name in the reference is accepted.
func TestEveryFormOfAStreamIsOne(t *testing.T) {
	for _, f := range streamForms {
		for _, example := range f.examples {
			_, ok := parseStream(example)
			require.True(t, ok, example)
		}
	}
}
