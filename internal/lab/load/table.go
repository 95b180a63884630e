package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table for a page or a terminal. Its first row is the header.
type Table [][]string

// Add adds a row of values, formatted by fmt.Sprint.
func (t *Table) Add(values ...any) {
	var row []string
	for _, v := range values {
		row = append(row, fmt.Sprint(v))
	}
	*t = append(*t, row)
}

// Markdown returns the table in Markdown.
func (t Table) Markdown() string {
	var b strings.Builder
	for n, row := range t {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if n == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
	return strings.Replace(b.String(), "|  |", "| |", 1) // an empty header cell
}

// Write writes the table for a terminal.
func (t Table) Write(w io.Writer) {
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer aligned.Flush()
	fmt.Fprintln(aligned)
	for _, row := range t {
		fmt.Fprintln(aligned, strings.Join(row, "\t"))
	}
}
