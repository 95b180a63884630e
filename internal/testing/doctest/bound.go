package doctest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Bounds compares the bounds of a package with what a page of documentation says of
// them. Each key is text that a line of the page has, such as the bound's name between
// backquotes; each value is what that line has to give as its value, not within a longer
// word or number. A bound that is changed is so changed where people read of it as well.
// The error names all that differ.
func Bounds(page string, bounds map[string][]string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	var wrong []string
	for key, values := range bounds {
		lines := linesWith(string(text), key)
		if len(lines) == 0 {
			wrong = append(wrong, fmt.Sprintf("no line has %s", key))
		}
		for _, value := range values {
			whole := regexp.MustCompile(`(^|[^\w,.])` + regexp.QuoteMeta(value) + `($|[^\w]|[,.](\D|$))`)
			if len(lines) > 0 && !whole.MatchString(strings.Join(lines, "\n")) {
				wrong = append(wrong, fmt.Sprintf("no line with %s has %s", key, value))
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s: %s", page, strings.Join(wrong, "; "))
	}
	return nil
}

// linesWith returns the lines of a text that have a part.
func linesWith(text, part string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}
