package doctest

import (
	"fmt"
	"regexp"
	"strings"
)

// forms match texts that vary from run to run, so that only their form is compared: times in RFC 3339, seconds
// since the Unix epoch, and digests.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\b`),
	regexp.MustCompile(`\b\d{10}\b`),
	regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b`),
}

const anything = "…"

// Match compares the output of a command with what a page shows. Blanks at the ends of lines and empty lines
// at the end are ignored. The error shows both.
func Match(shows []string, printed string) error {
	want := trim(shows)
	if len(want) == 0 || pattern(want).MatchString(strings.Join(trim(strings.Split(printed, "\n")), "\n")+"\n") {
		return nil
	}
	return fmt.Errorf("it prints\n%s\nwhere the page shows\n%s", strings.TrimRight(printed, "\n"),
		strings.Join(want, "\n"))
}

// trim removes the blanks at the ends of lines, and empty lines at the end.
func trim(lines []string) []string {
	trimmed := make([]string, len(lines))
	for i, line := range lines {
		trimmed[i] = strings.TrimRight(line, " \t\r")
	}
	for len(trimmed) > 0 && trimmed[len(trimmed)-1] == "" {
		trimmed = trimmed[:len(trimmed)-1]
	}
	return trimmed
}

// pattern returns an expression that matches all texts that the lines stand for, each with a line feed.
func pattern(lines []string) *regexp.Regexp {
	var expr strings.Builder
	expr.WriteString(`\A`)
	for _, line := range lines {
		if strings.TrimSpace(line) == anything {
			expr.WriteString(`(?:.*\n)*`)
			continue
		}
		expr.WriteString(linePattern(line) + `\n`)
	}
	expr.WriteString(`\z`)
	return regexp.MustCompile(expr.String())
}

// linePattern returns the expression for a line. A text of one of the forms in the line becomes that form, and …
// becomes any text. The rest is matched literally.
func linePattern(line string) string {
	for _, form := range forms {
		if at := form.FindStringIndex(line); at != nil {
			return linePattern(line[:at[0]]) + form.String() + linePattern(line[at[1]:])
		}
	}
	return strings.ReplaceAll(regexp.QuoteMeta(line), anything, `.*`)
}
