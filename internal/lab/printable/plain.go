// Package printable makes text that a server sent harmless where it is shown.
package printable

import (
	"strings"
	"unicode"
)

// Text returns s with what no reader shows as itself replaced by U+FFFD: bytes that are not UTF-8,
// control characters (those of terminals too), and marks that turn the direction of writing. Line
// feeds and tabs stay.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Cell returns s as a cell of a CSV file that no spreadsheet takes for a formula: one line, behind an
// apostrophe if it begins like one. Quoting it is left to encoding/csv.
func Cell(s string) string {
	s = Text(strings.Join(strings.Fields(s), " "))
	if strings.IndexAny(s, "=+-@'|%") == 0 {
		return "'" + s
	}
	return s
}
