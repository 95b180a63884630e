package model

import (
	"html"
	"regexp"
)

var (
	errorText = regexp.MustCompile(`(<error[^>]*>)([^<]+)</error>`)
	timeValue = regexp.MustCompile(` time="[0-9]+"`)
)

// Normalize replaces the text of every error in a reply by "*", because texts are
// free, and every time by "T", because clocks are. An error without text stays as
// it is.
func Normalize(reply []byte) string {
	s := errorText.ReplaceAllString(string(reply), "$1*</error>")
	return timeValue.ReplaceAllString(s, ` time="T"`)
}

// Texts returns the texts of the errors in a reply, except those that are empty.
func Texts(reply []byte) (texts []string) {
	for _, m := range errorText.FindAllSubmatch(reply, -1) {
		texts = append(texts, html.UnescapeString(string(m[2])))
	}
	return texts
}
