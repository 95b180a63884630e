package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table of a page or of a terminal. Its first row has the heads.
type Table [][]string

// Add adds a row of values, as fmt.Sprint prints them.
func (t *Table) Add(values ...any) {
	var row []string
	for _, v := range values {
		row = append(row, fmt.Sprint(v))
	}
	*t = append(*t, row)
}

// Markdown returns the table as a page has it.
func (t Table) Markdown() string {
	var b strings.Builder
	for n, row := range t {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if n == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
	return strings.Replace(b.String(), "|  |", "| |", 1) // a head without a name
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
