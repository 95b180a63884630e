package memlimit

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units of a size, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// ParseBytes parses a size: a whole number of bytes, or of KiB, MiB, GiB or TiB, such as 512MiB. It refuses
// KB and MB, which mean 1000 in some programs and 1024 in others. The error says what a size may be, or that
// it is too large, and does not quote the text.
func ParseBytes(text string) (int64, error) {
	digits, unit := strings.TrimSpace(text), int64(1)
	for _, u := range units {
		if n := len(digits) - len(u.name); n > 0 && strings.EqualFold(digits[n:], u.name) {
			digits, unit = strings.TrimSpace(digits[:n]), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 0, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), n > math.MaxInt64/unit, n < math.MinInt64/unit:
		return 0, fmt.Errorf("must be at most %d bytes", int64(math.MaxInt64))
	case err != nil:
		return 0, fmt.Errorf("must be a number of bytes, or of KiB, MiB, GiB or TiB, such as 512MiB")
	}
	return n * unit, nil
}

// FormatBytes formats a size for ParseBytes, in the largest unit that gives a whole number.
func FormatBytes(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// BytesVar declares a flag for a size in bytes, parsed by ParseBytes. Its value prints as a plain number, its
// default in the help text as by FormatBytes.
func BytesVar[T int | int64](f *flag.FlagSet, at *T, name string, initial T, usage string) {
	*at = initial
	f.Var(bytesValue[T]{at}, name, usage)
	f.Lookup(name).DefValue = FormatBytes(int64(initial))
}

// bytesValue is a size as a flag.Value.
type bytesValue[T int | int64] struct{ at *T }

func (v bytesValue[T]) Set(text string) error {
	n, err := ParseBytes(text)
	if err == nil && int64(T(n)) != n {
		err = fmt.Errorf("must be at most %d bytes", math.MaxInt)
	}
	if err == nil {
		*v.at = T(n)
	}
	return err
}

func (v bytesValue[T]) String() string {
	if v.at == nil { // package flag calls String on a zero value
		return "0"
	}
	return strconv.FormatInt(int64(*v.at), 10)
}
