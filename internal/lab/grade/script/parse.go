package script

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a case's file.
const (
	caseBytesMax = 256 << 10
	stepsMax     = 1000
	timeMax      = 120 * time.Second // highest time in a header
)

// Parse parses a case. name is its file's name without .case: GROUP/NAME. The error names the file, the
// line and the wrong word.
func Parse(name string, text []byte) (*Case, error) {
	p := &parser{c: &Case{Name: name, Points: 1, Time: 10 * time.Second}, seen: map[string]bool{}}
	if err := p.file(text); err != nil {
		return nil, fmt.Errorf("%s.case:%d: %w", name, max(p.line, 1), err)
	}
	return p.c, nil
}

// parser parses a case's file line by line.
type parser struct {
	c    *Case
	line int // number of the current line
	seen map[string]bool
}

// file parses the whole file.
func (p *parser) file(text []byte) error {
	if len(text) > caseBytesMax {
		return fmt.Errorf("a case has at most %d bytes, this one has %d", caseBytesMax, len(text))
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("not UTF-8")
	}
	for _, l := range joined(text) {
		p.line = l.number
		if err := p.one(l); err != nil {
			return err
		}
	}
	p.line = 1
	for _, word := range []string{"case", "rule", "tell"} {
		if !p.seen[word] {
			return fmt.Errorf("the header has no %s", word)
		}
	}
	if len(p.c.Steps) == 0 && p.c.Group != "form" {
		return fmt.Errorf("there is no conversation")
	}
	return p.check()
}

// line is a line with its continuation lines.
type line struct {
	number int
	parts  []string // the line and its continuations, trimmed
}

// joined returns the lines of a file with their continuations, without comments and blank lines.
func joined(text []byte) []line {
	var all []line
	for i, b := range bytes.Split(text, []byte("\n")) {
		s := strings.TrimRight(string(b), " \t\r")
		switch {
		case s == "" || s[0] == '#':
		case (s[0] == ' ' || s[0] == '\t') && len(all) > 0:
			last := &all[len(all)-1]
			last.parts = append(last.parts, strings.TrimSpace(s))
		default:
			all = append(all, line{i + 1, []string{strings.TrimSpace(s)}})
		}
	}
	return all
}

// stepLine matches a line of the conversation: the connection, the sign, and the rest.
var stepLine = regexp.MustCompile(`^([0-9]*)(>\||>|<\||<|\||\?)(.*)$`)

// one parses a line.
func (p *parser) one(l line) error {
	if m := stepLine.FindStringSubmatch(strings.Join(l.parts, "")); m != nil {
		if len(p.c.Steps) == stepsMax {
			return fmt.Errorf("a case has at most %d lines", stepsMax)
		}
		return p.step(m[1], m[2], m[3])
	}
	word, rest, _ := strings.Cut(strings.Join(l.parts, " "), " ")
	i := slices.IndexFunc(headers, func(h header) bool { return h.name == word })
	switch {
	case i < 0:
		return fmt.Errorf("%q cannot begin a line: a header has %s; a conversation > < | ?", elide(word, 40), headerNames())
	case len(p.c.Steps) > 0:
		return fmt.Errorf("%s belongs above the conversation", word)
	case p.seen[word]:
		return fmt.Errorf("%s is given twice", word)
	}
	p.seen[word] = true
	if word != "tell" {
		rest, _, _ = strings.Cut(rest, "#")
	}
	if rest = strings.TrimSpace(rest); rest == "" {
		return fmt.Errorf("%s has no value", word)
	}
	return headers[i].set(p.c, rest)
}

// header is a line of the header. docs/reference/CASES.md is generated from the table.
type header struct {
	name, value, tells string
	set                func(c *Case, value string) error
}

var headers = []header{
	{"case", "GROUP/NAME", "required; the file's name without `.case`", func(c *Case, v string) error {
		if v != c.Name {
			return fmt.Errorf("case %s is in the file of %s", elide(v, 80), c.Name)
		}
		c.Group, _, _ = strings.Cut(v, "/")
		if !slices.ContainsFunc(Groups, func(g Group) bool { return g.Name == c.Group }) {
			return fmt.Errorf("there is no group %q; the groups are %s", c.Group, groupNames())
		}
		if !caseName.MatchString(v) {
			return fmt.Errorf("case %q is not GROUP/NAME, of small letters, digits and -", elide(v, 80))
		}
		return nil
	}},
	{"rule", "HEADING", "required; the section of the protocol", func(c *Case, v string) error {
		c.Rule = v
		return nil
	}},
	{"tell", "SENTENCE", "required; what must hold, for the author of the server", func(c *Case, v string) error {
		c.Tell = v
		return nil
	}},
	{"points", "N", "default 1; what the case is worth within its group", func(c *Case, v string) (err error) {
		c.Points, err = strconv.ParseFloat(v, 64)
		if err != nil || !(c.Points >= 0 && c.Points <= 1000) {
			return fmt.Errorf("points %q is not a number from 0 to 1000", elide(v, 40))
		}
		return nil
	}},
	{"risk", "0-9", "default 0; a case that may bring a server down is played late", func(c *Case, v string) (err error) {
		c.Risk, err = strconv.Atoi(v)
		if err != nil || c.Risk < 0 || c.Risk > 9 {
			return fmt.Errorf("risk %q is not a number from 0 to 9", elide(v, 40))
		}
		return nil
	}},
	{"time", "SECONDS", "default 10; how long the case may take", func(c *Case, v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n > 0 && n <= timeMax.Seconds()) {
			return fmt.Errorf("time %q is not a number of seconds up to %v", elide(v, 40), timeMax.Seconds())
		}
		c.Time = time.Duration(n * float64(time.Second))
		return nil
	}},
	{"hidden", "yes, no", "default no; students see it after the deadline", func(c *Case, v string) error {
		if v != "yes" && v != "no" {
			return fmt.Errorf("hidden %q is not yes or no", elide(v, 40))
		}
		c.Hidden = v == "yes"
		return nil
	}},
	{"parts", "8 16 32", "the conversation is played once for each, `{part}` is its value; the case is worth as much as " +
		"its parts that pass", func(c *Case, v string) error {
		c.Parts = strings.Fields(v)
		if len(c.Parts) > partsMax {
			return fmt.Errorf("there are at most %d parts", partsMax)
		}
		for _, part := range c.Parts {
			if !isName(part, 'a', 'z') && !isDigits(part) {
				return fmt.Errorf("part %q is not made of small letters and digits", elide(part, 40))
			}
		}
		return nil
	}},
}

var caseName = regexp.MustCompile(`^[a-z0-9-]{1,32}/[a-z0-9-]{1,64}$`)

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func headerNames() string {
	var all []string
	for _, h := range headers {
		all = append(all, h.name)
	}
	return strings.Join(all, ", ")
}

func groupNames() string {
	var all []string
	for _, g := range Groups {
		all = append(all, g.Name)
	}
	return strings.Join(all, ", ")
}
