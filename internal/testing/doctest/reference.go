package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Reference compares a page of docs/reference with the text that the code makes of it now,
// or writes the page if update is set. The error names the command that brings a page up
// to date, and the first line that differs.
func Reference(page, text string, update bool) error {
	if update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			return fmt.Errorf("reference: %w", err)
		}
		return nil
	}
	b, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("reference: %w; run make reference", err)
	}
	was, is := strings.Split(string(b), "\n"), strings.Split(text, "\n")
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || was[i] != is[i] {
			return fmt.Errorf("docs/reference/%s is out of date from line %d on; run make reference",
				filepath.Base(page), i+1)
		}
	}
	return nil
}

// Table returns rows as a table of Markdown; the first row is its head. A | within a cell
// is escaped.
func Table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		for _, cell := range row {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(row)) + "|\n")
		}
	}
	return b.String()
}

// Thousands returns n with its digits in threes: 16,384.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
