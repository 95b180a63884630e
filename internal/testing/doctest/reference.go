package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Reference compares a page of docs/reference with text that was generated from the code, or writes the page
// if update is set. The error names the first line that differs, and the command that updates the page.
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

// Table returns rows as a Markdown table; the first row is the header. It escapes | in cells.
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

// Thousands returns n with its digits in groups of three: 16,384.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
