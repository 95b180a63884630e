package exchange

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reading is a row of a parser's table: want is the parsed value, printed again, and refused the
// text that the error must contain.
type reading struct{ in, want, refused string }

// decimals are the cases common to all decimals of the protocol.
var decimals = []reading{
	{in: "100", want: "100"},
	{in: "145.67", want: "145.67"},
	{in: "0.5", want: "0.5"},
	{in: ".5", want: "0.5"},
	{in: "5.", want: "5"},
	{in: "+5", want: "5"},
	{in: "007", want: "7"},
	{in: strings.Repeat("0", 300) + "12", want: "12"},
	{in: "1.50000000", want: "1.5"},
	{in: "0.00000001", want: "0.00000001"},
	{in: "1.00000000", want: "1"},
	{in: "1.000000000", refused: "has more than 8 fractional digits"},
	{in: "0.000000001", refused: "has more than 8 fractional digits"},
	{in: "", refused: "is not a decimal number"},
	{in: ".", refused: "is not a decimal number"},
	{in: "+", refused: "is not a decimal number"},
	{in: "-", refused: "is not a decimal number"},
	{in: "-.", refused: "is not a decimal number"},
	{in: "+-1", refused: "is not a decimal number"},
	{in: "--1", refused: "is not a decimal number"},
	{in: "1-", refused: "is not a decimal number"},
	{in: "1.2.3", refused: "is not a decimal number"},
	{in: "1,000", refused: "is not a decimal number"},
	{in: "1_000", refused: "is not a decimal number"},
	{in: "1 000", refused: "is not a decimal number"},
	{in: " 1", refused: "is not a decimal number"},
	{in: "1 ", refused: "is not a decimal number"},
	{in: "1\n", refused: "is not a decimal number"},
	{in: "- 1", refused: "is not a decimal number"},
	{in: "1e3", refused: "is not a decimal number"},
	{in: "1E3", refused: "is not a decimal number"},
	{in: "0x10", refused: "is not a decimal number"},
	{in: "NaN", refused: "is not a decimal number"},
	{in: "Inf", refused: "is not a decimal number"},
	{in: "-Inf", refused: "is not a decimal number"},
	{in: "１", refused: "is not a decimal number"}, // a full-width digit
	{in: "\x00", refused: "is not a decimal number"},
	{in: "\xff", refused: "is not a decimal number"},
}

// parsers are the four parsers of decimals; parse returns the parsed value, printed.
var parsers = []struct {
	name  string
	parse func(string) (string, error)
	limit *big.Int // the absolute value must be below it
	zero  bool     // 0 is accepted
	sells bool     // a negative value is accepted
}{
	{"balance", printed(ParseBalance[string], ParseBalance[[]byte]), bigPow10(18), true, false},
	{"number of shares", printed(ParseDeposit[string], ParseDeposit[[]byte]), bigPow10(18), false, false},
	{"amount", printed(signedAmount[string], signedAmount[[]byte]), big.NewInt(9e10), false, true},
	{"limit", printed(ParseLimit[string], ParseLimit[[]byte]), big.NewInt(9e10), false, false},
}

// signedAmount is ParseAmount with the side as the sign of the result.
func signedAmount[S string | []byte](s S) (Shares, error) {
	side, v, err := ParseAmount(s)
	if side == Sell {
		v = -v
	}
	return v, err
}

// printed returns a parser that prints its values. It parses a value as a string and as
// bytes, which it then overwrites, and fails if the results differ.
func printed[T comparable](text func(string) (T, error), bytes func([]byte) (T, error)) func(string) (string, error) {
	return func(s string) (string, error) {
		b := []byte(s)
		want, err := text(s)
		got, errBytes := bytes(b)
		for i := range b {
			b[i] = '?'
		}
		if got != want || fmt.Sprint(err) != fmt.Sprint(errBytes) {
			return "", fmt.Errorf("%q is %v, %w as text and %v, %w as bytes", s, want, err, got, errBytes)
		}
		return fmt.Sprint(want), err
	}
}

func bigPow10(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// checkReadings checks a table, and that an error contains the kind of value and
// the value itself.
func checkReadings(t *testing.T, kind string, parse func(string) (string, error), table []reading) {
	t.Helper()
	for _, row := range table {
		got, err := parse(row.in)
		if row.refused != "" {
			require.EqualError(t, err, kind+" "+quote(row.in)+" "+row.refused)
			continue
		}
		require.NoError(t, err, "%q", row.in)
		require.Equal(t, row.want, got, "%q", row.in)
	}
}

func TestEveryParserReadsDecimalsAlike(t *testing.T) {
	for _, p := range parsers {
		checkReadings(t, p.name, p.parse, decimals)
	}
}

func TestParseBalanceKeepsItsLimits(t *testing.T) {
	checkReadings(t, "balance", parsers[0].parse, []reading{
		{in: "0", want: "0"},
		{in: "-0", want: "0"},
		{in: "-0.00000000", want: "0"},
		{in: "-0.00000001", refused: "is negative"},
		{in: "-1", refused: "is negative"},
		{in: "999999999999999999", want: "999999999999999999"},
		{in: "999999999999999999.99999999", want: "999999999999999999.99999999"},
		{in: "1000000000000000000", refused: "is out of range"},
		{in: "1000000000000000000.00000001", refused: "is out of range"},
		{in: "9999999999999999999", refused: "is out of range"},
		{in: "18446744073709551616", refused: "is out of range"}, // 2^64
		{in: "340282366920938463463374607431768211457", refused: "is out of range"},
	})
}

func TestParsePlacementKeepsItsLimits(t *testing.T) {
	checkReadings(t, "number of shares", parsers[1].parse, []reading{
		{in: "0", refused: "is not more than 0"},
		{in: "-0", refused: "is not more than 0"},
		{in: "0.00000000", refused: "is not more than 0"},
		{in: "-1", refused: "is not more than 0"},
		{in: "999999999999999999.99999999", want: "999999999999999999.99999999"},
		{in: "1000000000000000000", refused: "is out of range"},
	})
}

func TestParseAmountKeepsItsLimits(t *testing.T) {
	checkReadings(t, "amount", parsers[2].parse, []reading{
		{in: "0", refused: "is 0"},
		{in: "-0", refused: "is 0"},
		{in: "-0.0", refused: "is 0"},
		{in: "-0.5", want: "-0.5"},
		{in: "-0.00000001", want: "-0.00000001"},
		{in: "89999999999.99999999", want: "89999999999.99999999"},
		{in: "-89999999999.99999999", want: "-89999999999.99999999"},
		{in: "90000000000", refused: "is out of range"},
		{in: "-90000000000", refused: "is out of range"},
		{in: "90000000000.00000001", refused: "is out of range"},
		{in: "1000000000000000000000", refused: "is out of range"},
	})
}

func TestParseLimitKeepsItsLimits(t *testing.T) {
	checkReadings(t, "limit", parsers[3].parse, []reading{
		{in: "0", refused: "is not more than 0"},
		{in: "-0", refused: "is not more than 0"},
		{in: "-0.00000001", refused: "is not more than 0"},
		{in: "-145.67", refused: "is not more than 0"},
		{in: "89999999999.99999999", want: "89999999999.99999999"},
		{in: "90000000000", refused: "is out of range"},
		{in: "1000000000000000000000", refused: "is out of range"},
	})
}

func TestParseOrderIDKeepsItsLimits(t *testing.T) {
	parse := printed(ParseOrderID[string], ParseOrderID[[]byte])
	checkReadings(t, "order id", parse, []reading{
		{in: "1", want: "1"},
		{in: "0042", want: "42"},
		{in: strings.Repeat("0", 200) + "1", want: "1"},
		{in: "", refused: "is not a number of 1 or more"},
		{in: "0", refused: "is not a number of 1 or more"},
		{in: "000", refused: "is not a number of 1 or more"},
		{in: "-1", refused: "is not a whole number"},
		{in: "+1", refused: "is not a whole number"},
		{in: " 1", refused: "is not a whole number"},
		{in: "1.0", refused: "is not a whole number"},
		{in: "1x", refused: "is not a whole number"},
		{in: "9223372036854775807", want: "9223372036854775807"},
		{in: "009223372036854775807", want: "9223372036854775807"},
		{in: "9223372036854775808", refused: "is out of range"},
		{in: "9223372036854775809", refused: "is out of range"},
		{in: "9223372036854775810", refused: "is out of range"},
		{in: "9223372036854775808x", refused: "is out of range"},
		{in: "922337203685477580x", refused: "is not a whole number"},
		{in: "18446744073709551617", refused: "is out of range"},
		{in: strings.Repeat("9", 1000), refused: "is out of range"},
	})
	id, err := ParseOrderID("9223372036854775807")
	require.NoError(t, err)
	require.Equal(t, orderIDMax, id)
}

func TestParseAccountIDTakesDigitsOnly(t *testing.T) {
	parse := printed(ParseAccountID[string], ParseAccountID[[]byte])
	longest := strings.Repeat("7", AccountDigitsMax)
	checkReadings(t, "account id", parse, []reading{
		{in: "0", want: "0"},
		{in: "7", want: "7"},
		{in: "007", want: "007"}, // not the account "7"
		{in: longest, want: longest},
		{in: longest + "7", refused: "is not 1 to 64 digits"},
		{in: "", refused: "is not 1 to 64 digits"},
		{in: "-1", refused: "is not made of digits"},
		{in: "1 ", refused: "is not made of digits"},
		{in: "12a", refused: "is not made of digits"},
		{in: "٣", refused: "is not made of digits"}, // an Arabic-Indic digit
	})
}

func TestParseSymbolTakesLettersAndDigitsOnly(t *testing.T) {
	parse := printed(ParseSymbol[string], ParseSymbol[[]byte])
	longest := strings.Repeat("Z", SymbolCharsMax)
	const refused = "has a character other than A-Z, a-z, 0-9"
	checkReadings(t, "symbol", parse, []reading{
		{in: "SPY", want: "SPY"},
		{in: "spy", want: "spy"}, // another symbol than "SPY"
		{in: "azAZ09", want: "azAZ09"},
		{in: longest, want: longest},
		{in: longest + "Z", refused: "is not 1 to 32 characters"},
		{in: "", refused: "is not 1 to 32 characters"},
		{in: "SP Y", refused: refused},
		{in: "@", refused: refused}, // the characters next to the three allowed ranges
		{in: "[", refused: refused},
		{in: "`", refused: refused},
		{in: "{", refused: refused},
		{in: "/", refused: refused},
		{in: ":", refused: refused},
		{in: "BRK.B", refused: refused},
		{in: "É", refused: refused},
	})
}

func TestErrorsOfBadValuesStayOneShortLine(t *testing.T) {
	for _, in := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("\xff", 1000), strings.Repeat("\n", 1000), "\u2028", "a\rb",
	} {
		for _, p := range parsers {
			_, err := p.parse(in)
			requireShortLine(t, err)
		}
		_, err := ParseOrderID(in)
		requireShortLine(t, err)
		_, err = ParseAccountID(in)
		requireShortLine(t, err)
		_, err = ParseSymbol(in)
		requireShortLine(t, err)
	}
}

func requireShortLine(t testing.TB, err error) {
	t.Helper()
	require.Error(t, err)
	require.Less(t, len(err.Error()), 400)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "\r")
}

func TestGoodValuesAreParsedWithoutAllocation(t *testing.T) {
	number, id := []byte("89999999999.99999999"), []byte("9223372036854775807")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, errBalance := ParseBalance(number)
		_, errPlacement := ParseDeposit(number)
		_, _, errAmount := ParseAmount(number)
		_, errLimit := ParseLimit(number)
		_, errID := ParseOrderID(id)
		if errBalance != nil || errPlacement != nil || errAmount != nil || errLimit != nil || errID != nil {
			panic("a good value was refused")
		}
	}))
}
