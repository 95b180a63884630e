// Package phrase joins counts and lists of words into text for people.
package phrase

import (
	"fmt"
	"strings"
)

// Number returns a count with its noun, in the plural unless n is 1.
func Number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List joins words with commas, and puts last, such as "and", before the final word.
func List(words []string, last string) string {
	if len(words) == 1 {
		return words[0]
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
