package doctest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Bounds compares the bounds of a package with a page of documentation. A key is text that a line of the page
// must contain, such as the bound's name in backquotes. The values are texts that this line must contain, and
// not as a part of a longer word or number. So a bound cannot be changed without the page. The error names
// all differences.
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

// linesWith returns the lines of a text that contain a part.
func linesWith(text, part string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			lines = append(lines, line)
		}
	}
	return lines
}
