package model

import (
	"html"
	"regexp"
)

var (
	errorText = regexp.MustCompile(`(<error[^>]*>)([^<]+)</error>`)
	timeValue = regexp.MustCompile(` time="[0-9]+"`)
)

// Normalize replaces the text of every error in a reply by "*", because the wording is not specified, and
// every time by "T", because clocks differ. An error without text stays unchanged.
func Normalize(reply []byte) string {
	s := errorText.ReplaceAllString(string(reply), "$1*</error>")
	return timeValue.ReplaceAllString(s, ` time="T"`)
}

// Texts returns the nonempty error texts in a reply.
func Texts(reply []byte) (texts []string) {
	for _, m := range errorText.FindAllSubmatch(reply, -1) {
		texts = append(texts, html.UnescapeString(string(m[2])))
	}
	return texts
}
