// Package printable makes text from a server safe to show.
package printable

import (
	"strings"
	"unicode"
)

// Text returns s with everything unprintable replaced by U+FFFD: bytes that are not UTF-8, control
// characters (such as terminal escapes), and marks that change the direction of writing. Line feeds
// and tabs stay.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Cell returns s as a cell of a CSV file: one line, with an apostrophe in front if a spreadsheet could read it as a
// formula. It leaves the quoting to encoding/csv.
func Cell(s string) string {
	s = Text(strings.Join(strings.Fields(s), " "))
	if strings.IndexAny(s, "=+-@'|%") == 0 {
		return "'" + s
	}
	return s
}
