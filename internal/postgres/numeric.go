package postgres

import (
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// Fractional digits of the decimals in the tables.
const (
	scaleCash   = 16
	scaleShares = 8
)

// int128 returns n in units of 10^-scale. The error names a value that is not a whole number of units, or is
// out of range.
func int128(n pgtype.Numeric, scale int32) (exchange.Int128, error) {
	units, err := wholeUnits(n, scale)
	if err != nil {
		return exchange.Int128{}, err
	}
	if units.BitLen() > 126 {
		return exchange.Int128{}, fmt.Errorf("postgres: %v × 10^%d is out of range", n.Int, n.Exp)
	}
	return toInt128(units), nil
}

// wholeUnits returns n in units of 10^-scale, without a limit of range.
func wholeUnits(n pgtype.Numeric, scale int32) (*big.Int, error) {
	if !n.Valid || n.NaN || n.InfinityModifier != pgtype.Finite {
		return nil, fmt.Errorf("postgres: %+v is not a number", n)
	}
	v := new(big.Int).Set(n.Int)
	ten := big.NewInt(10)
	exp := n.Exp + scale
	for ; exp > 0; exp-- {
		v.Mul(v, ten)
	}
	rest := new(big.Int)
	for ; exp < 0; exp++ {
		if v.QuoRem(v, ten, rest); rest.Sign() != 0 {
			return nil, fmt.Errorf("postgres: %v × 10^%d has more than %d fractional digits", n.Int, n.Exp, scale)
		}
	}
	return v, nil
}

// toInt128 converts v, which must be in range.
func toInt128(v *big.Int) exchange.Int128 {
	lo := new(big.Int).And(v, new(big.Int).SetUint64(^uint64(0)))
	return exchange.Int128{Hi: new(big.Int).Rsh(v, 64).Int64(), Lo: lo.Uint64()}
}

// fromInt128 converts v to a big.Int.
func fromInt128(v exchange.Int128) *big.Int {
	hi := new(big.Int).Lsh(big.NewInt(v.Hi), 64)
	return hi.Add(hi, new(big.Int).SetUint64(v.Lo))
}
