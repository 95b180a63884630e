package cli

import (
	"flag"
	"os"
	"strings"
)

// IsDigits reports whether a text consists of one or more digits, as an account's id does.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// DataFlag declares the flag --data, and returns a function for its value, which OUTCRY_DATA replaces if the
// flag is not given.
func DataFlag(f *flag.FlagSet) func() string {
	data := f.String("data", "outcry-data", "data `directory` of the exchange, also as OUTCRY_DATA")
	return func() string {
		if value := os.Getenv("OUTCRY_DATA"); value != "" && !IsGiven(f, "data") {
			return value
		}
		return *data
	}
}
