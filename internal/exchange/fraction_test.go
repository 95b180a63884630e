package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFractionsAreReadAsTheyAreWritten covers the smallest and the largest percentage, too.
func TestFractionsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]Fraction{"10%": ProtectStandard, "100%": FractionOne, "0.000001%": 1,
		"1000%": FractionMax, "2.5%": 2_500_000} {
		got, err := ParseFraction(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, text, got.String())
	}
	for text, want := range map[string]string{
		"10": "percent", "": "percent", "%": "not a decimal", "0%": "not more than 0", "-1%": "not more than 0",
		"1000.000001%": "is more than 1000%", "99999999999%": "is more than 1000%", "0.0000001%": "more than 6 fractional",
		"1e1%": "not a decimal",
	} {
		_, err := ParseFraction(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, `"`+text+`"`)
	}
}
