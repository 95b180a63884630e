package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/printable"
)

// logLinesMax is how many of the last lines of the server's output are shown.
const logLinesMax = 12

// WriteText writes r for people: the groups and the score, then each failure with its rule, what must hold,
// what was expected and the conversation that shows it.
func WriteText(w io.Writer, r *grade.Result) error {
	var b strings.Builder
	writeGroups(&b, r)
	gone := false
	for _, c := range failures(r) {
		if c.Tries > 0 {
			writeFailure(&b, &c)
		}
	}
	for _, why := range reasons(r, script.Fail) {
		gone = true
		fmt.Fprintf(&b, "\n%s\n%s", printable.Text(why.message), folded(why.names))
	}
	for _, why := range reasons(r, script.Skip) {
		fmt.Fprintf(&b, "\nnot counted: %s\n%s", printable.Text(why.message), folded(why.names))
	}
	if gone || r.Restarts > 0 {
		writeLog(&b, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLog writes the last lines of the server's output, if there are any.
func writeLog(w io.Writer, r *grade.Result) {
	if r.Log == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(printable.Text(r.Log), "\n"), "\n")
	fmt.Fprintf(w, "\nthe server printed at the end:\n    %s\n",
		strings.Join(lines[max(0, len(lines)-logLinesMax):], "\n    "))
}

// writeGroups writes the table of groups, with the score below it.
func writeGroups(w io.Writer, r *grade.Result) {
	for _, h := range habits(r.Habits) {
		fmt.Fprintf(w, "found: %s\n", h)
	}
	if r.Restarts > 0 {
		fmt.Fprintf(w, "the server was restarted, since it did not answer: %d times\n", r.Restarts)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	for _, g := range grouped(r) {
		right, wrong, skipped := 0, 0, 0
		for _, c := range g.cases {
			switch c.Status {
			case script.Pass:
				right++
			case script.Part, script.Fail:
				wrong++
			case script.Skip:
				skipped++
			}
		}
		text := fmt.Sprintf("%d of %d cases pass", right, right+wrong)
		if skipped > 0 {
			text += fmt.Sprintf(", %d not counted", skipped)
		}
		// AlignRight is for the figures; the names are padded, so they align left.
		fmt.Fprintf(t, "%-12s\t%.2f\tof\t%.2f\t   %s\n", g.Name, g.Points, g.Max, text)
	}
	if got, most, scaled := sum(r); scaled {
		fmt.Fprintf(t, "%-12s\t%.2f\tof\t%.2f\t   scaled to the score\n", "sum", got, most)
	}
	fmt.Fprintf(t, "%-12s\t%.2f\tof\t%.2f\t   in %.1f s, with seed %d\n", "score", r.Score, r.Best, r.Seconds, r.Seed)
}

// writeFailure writes why a case failed.
func writeFailure(w io.Writer, c *grade.CaseResult) {
	notes := worth(c)
	if c.Hidden {
		notes += ", hidden"
	}
	fmt.Fprintf(w, "\n%s %s (%s)\n", strings.ToUpper(string(c.Status)), c.Name, notes)
	for line := range strings.Lines(explained(*c)) {
		if begins := strings.TrimLeft(line, "><!"); begins != line {
			line = "  " + line
		}
		fmt.Fprint(w, "  ", line)
	}
}

// reason is why certain cases were not played.
type reason struct {
	message string
	names   []string // names of cases, or of groups if none of their cases was played
}

// reasons returns why cases with this status were not played, in the order of the cases.
func reasons(r *grade.Result, status script.Status) (all []reason) {
	for _, g := range grouped(r) {
		in := map[string][]string{} // names of this group, by message
		var messages []string
		for _, c := range g.cases {
			if c.Status != status || c.Tries > 0 && status != script.Skip {
				continue
			}
			if in[c.Message] == nil {
				messages = append(messages, c.Message)
			}
			in[c.Message] = append(in[c.Message], c.Name)
		}
		for _, message := range messages {
			names := in[message]
			if n := len(names); n > 1 && n == len(g.cases) {
				names = []string{fmt.Sprintf("%s (all %d)", g.Name, n)}
			}
			i := slices.IndexFunc(all, func(r reason) bool { return r.message == message })
			if i < 0 {
				all, i = append(all, reason{message: message}), len(all)
			}
			all[i].names = append(all[i].names, names...)
		}
	}
	return all
}

// folded returns names separated by commas, in lines of limited length.
func folded(names []string) string {
	const columns = 96
	var b strings.Builder
	line := "  "
	for i, name := range names {
		if i > 0 {
			line += ","
		}
		if len(line)+1+len(name) > columns && i > 0 {
			b.WriteString(line + "\n")
			line = "  "
		}
		line += " " + name
	}
	return b.String() + line + "\n"
}
