package script

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"outcry/internal/lab/dialect"
)

// step parses a line of the conversation.
func (p *parser) step(number, sign, rest string) error {
	s := Step{line: p.line, conn: 1, text: strings.TrimSpace(rest)}
	if number != "" {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > connNumMax {
			return fmt.Errorf("connection %s: must be a number from 1 to %d", elide(number, 20), connNumMax)
		}
		s.conn = n
	}
	last := p.last()
	switch inBlock := last != nil && last.kind == act && last.verb.frame; {
	case inBlock && last.frame == "" && (sign != ">" || number != ""):
		return fmt.Errorf("%s must be followed by a line with >", last.verb.name)
	case inBlock && last.frame == "":
		last.frame = s.text
		return notEmpty(s.text, "frame")
	case sign == "<" && countedLine.MatchString(rest):
		if !inBlock || number != "" {
			return fmt.Errorf("<%s counts replies, which only at-once allows; for one expected reply put a blank after <",
				elide(rest, 20))
		}
		m := countedLine.FindStringSubmatch(rest)
		last.wants = append(last.wants, counted{p.line, m[1], strings.TrimSpace(m[2])})
		return nil
	}
	s.kind = map[string]kind{">": send, ">|": raw, "<": want, "<|": closed, "|": act, "?": act}[sign]
	if s.kind == act {
		if err := s.verbOf(sign); err != nil {
			return err
		}
	}
	p.c.Steps = append(p.c.Steps, s)
	if s.kind == send || s.kind == raw {
		return notEmpty(s.text, "frame")
	}
	return nil
}

// countedLine matches the text after < if a count follows without a blank: the count, and WANT.
var countedLine = regexp.MustCompile(`^([0-9]+|\*|\{part\})(?:[ \t]+(.*))?$`)

func notEmpty(text, what string) error {
	if text == "" {
		return fmt.Errorf("there is no %s after >", what)
	}
	return nil
}

// last returns the last step; nil before the first step.
func (p *parser) last() *Step {
	if len(p.c.Steps) == 0 {
		return nil
	}
	return &p.c.Steps[len(p.c.Steps)-1]
}

// verbOf finds the verb of a line.
func (s *Step) verbOf(sign string) error {
	word, rest, _ := strings.Cut(s.text, " ")
	name := word
	if sign == "?" {
		name = "? " + word
	}
	if s.verb = verbNamed(name); s.verb == nil {
		var all []string
		for _, v := range verbs {
			if strings.HasPrefix(v.name, "?") == (sign == "?") {
				all = append(all, v.name)
			}
		}
		return fmt.Errorf("there is no %s %s; there are %s", sign, elide(word, 40), strings.Join(all, ", "))
	}
	s.text = strings.TrimSpace(rest)
	return nil
}

// check checks a whole case before it is played: every name must have a value, and every WANT must be
// well-formed.
func (p *parser) check() error {
	for i := range p.c.Steps {
		if last := &p.c.Steps[i]; last.kind == act && last.verb.frame && last.frame == "" {
			p.line = last.line
			return fmt.Errorf("%s must be followed by a line with >", last.verb.name)
		}
	}
	for _, part := range partsOf(p.c) {
		c := &checker{part: part, bound: map[string]bool{}}
		for i := range p.c.Steps {
			p.line = p.c.Steps[i].line
			if err := c.step(p, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// partsOf returns the values of {part}, or only "" if a case has no parts.
func partsOf(c *Case) []string {
	if len(c.Parts) == 0 {
		return []string{""}
	}
	return c.Parts
}

// checker checks a conversation without a server.
type checker struct {
	part  string
	bound map[string]bool
	block bool // the line belongs to an at-once block, in which {n} has a value
}

// expander returns an expander in which every name has a value of the right form.
func (c *checker) expander(inWant bool) *expander {
	x := &expander{name: func(name string) (string, bool) {
		switch {
		case name == "part" && c.part != "":
			return c.part, true
		case name == "n" && c.block:
			return "1", true
		case reserved[name]:
			return "", false
		case isSymbolName(name):
			return "S1", true
		}
		return "1000000001", isAccountName(name)
	}}
	if !inWant {
		x.value = func(name string) (string, bool) { return "1", c.bound[name] }
	}
	return x
}

// step checks one line. On an error in a block, p.line is the line of the block that is wrong.
func (c *checker) step(p *parser, i int) error {
	s := p.c.Steps[i]
	switch s.kind {
	case send:
		_, err := c.expander(false).expand(s.text)
		return err
	case raw:
		x := c.expander(false)
		x.raw = true
		_, err := x.expand(s.text)
		return err
	case want:
		return c.want(s.text)
	case closed:
		return c.nothing(s, "<|")
	case act:
	}
	args, err := c.expander(false).expand(s.text)
	if err != nil {
		return err
	}
	if s.verb.check != nil {
		if err := s.verb.check(strings.Fields(args)); err != nil {
			return err
		}
	} else if err := c.nothing(s, s.verb.name); err != nil {
		return err
	}
	if err := c.group(p.c, i, strings.Fields(args)); err != nil || !s.verb.frame {
		return err
	}
	c.block = true
	defer func() { c.block = false }()
	if _, err := c.expander(false).expand(s.frame); err != nil {
		return err
	}
	for _, w := range s.wants {
		p.line = w.line
		if _, err := strconv.Atoi(strings.ReplaceAll(w.count, "{part}", c.part)); err != nil && w.count != "*" {
			return fmt.Errorf("%s is not a number of replies", elide(w.count, 40))
		}
		if err := c.want(w.text); err != nil {
			return err
		}
	}
	return nil
}

// nothing checks that the line has nothing after word.
func (c *checker) nothing(s Step, word string) error {
	if s.text == "" {
		return nil
	}
	return fmt.Errorf("nothing may follow %s, but %s does", word, elide(s.text, 40))
}

// group checks that together is followed by the number of frames that it names.
func (c *checker) group(of *Case, i int, args []string) error {
	if of.Steps[i].verb.name != "together" {
		return nil
	}
	n, _ := strconv.Atoi(args[0])
	for k := 1; k <= n; k++ {
		if i+k >= len(of.Steps) || of.Steps[i+k].kind != send || of.Steps[i+k].conn != of.Steps[i].conn {
			return fmt.Errorf("together %d is followed by %d frames of its connection, not %d", n, k-1, n)
		}
	}
	return nil
}

// want checks a WANT, and records which $ names get a value in it.
func (c *checker) want(text string) error {
	elements, _, err := parseWant(c.expander(true), text)
	if err != nil {
		return err
	}
	return c.elements(elements, false)
}

// elements checks the $ values in elements, and that the elements have no text.
func (c *checker) elements(all []*dialect.Element, inside bool) error {
	for _, e := range all {
		for _, a := range e.Attrs {
			name, isVar := strings.CutPrefix(a.Value, "$")
			switch {
			case !isVar:
			case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r > 'z' || !isNameByte(byte(r)) }):
				return fmt.Errorf("%q is not $ and a name of letters and digits", elide(a.Value, 40))
			case name == "new" && (!c.block || inside):
				return fmt.Errorf("$new is only allowed in an answer after at-once")
			case name == "new" || c.bound[name]:
			case inside:
				return fmt.Errorf("$%s gets its value within <%s>, whose children have no order", name, e.Name)
			default:
				c.bound[name] = true
			}
		}
		if e.Text != "" {
			return fmt.Errorf("texts are not compared, so %q cannot be expected", elide(e.Text, 40))
		}
		if err := c.elements(e.Children, true); err != nil {
			return err
		}
	}
	return nil
}

// parseWant parses a WANT. anything reports whether it is *.
func parseWant(x *expander, text string) (elements []*dialect.Element, anything bool, err error) {
	if text == "*" {
		return nil, true, nil
	}
	if text, err = x.expand(text); err != nil {
		return nil, false, err
	}
	root, err := dialect.ParseDoc("<results>" + text + "</results>")
	if broken := new(dialect.Broken); errors.As(err, &broken) && broken.Err != nil {
		err = broken.Err // without the part of the message that blames a server
	}
	if err != nil {
		return nil, false, fmt.Errorf("the expected reply is not XML: %w", err)
	}
	if root.Text != "" {
		return nil, false, fmt.Errorf("texts are not compared, so %q cannot be expected", elide(root.Text, 40))
	}
	return slices.Clip(root.Children), false, nil
}
