// Package doctest runs the commands that a page of documentation shows, in a shell, and
// compares what they print with what the page says they print. So a page cannot drift
// from the programs: a test walks it.
//
// Commands are in fenced blocks of the language console. A line that begins with "$ "
// is a command, and goes on in the next line after a backslash; the lines up to the next
// command are what it prints. One of which nothing is shown may print anything. Each
// has to end with status 0.
//
// In what is shown, … stands for any text within a line, and a line that is … for any
// number of lines. A time, a number of ten digits and a number of 32 or 64 hexadecimal
// digits stand for any other of their form.
//
// A comment before a block says what is different about it:
//
//	<!-- walk: fails -->          its last command ends with another status
//	<!-- walk: repeat -->         each command is repeated until it prints what is shown
//	<!-- walk: stays -->          its command goes on, in the background, once it has printed what is shown
//	<!-- walk: interrupt -->      its command is ended with Ctrl-C once it has printed what is shown
//	<!-- walk: skip: REASON -->   it is not run here, for the reason
//	<!-- walk: meanwhile NAME --> without a block: what people do here, or machines, that no command of the page does
//
// Blocks of other languages are no commands. One without a language has to be skipped:
// nothing is left out in silence.
package doctest

import (
	"fmt"
	"strings"
)

// Mode tells how a part of a page is run.
type Mode string

// The modes.
const (
	Plain     Mode = ""          // one command after the other
	Fails     Mode = "fails"     // the last one has to fail
	Repeat    Mode = "repeat"    // each until it prints what is shown
	Stays     Mode = "stays"     // goes on in the background
	Interrupt Mode = "interrupt" // is ended once it has printed what is shown
	Skip      Mode = "skip"      // is not run
	Meanwhile Mode = "meanwhile" // is no block: somebody else does something
)

// Page is a page of documentation: its parts in their order.
type Page struct {
	name     string
	headings []heading
	Parts    []Part
}

type heading struct {
	line, level int
	title       string
}

// Part is a block of commands, or a Meanwhile.
type Part struct {
	Line  int // of the page, counted from 1
	Mode  Mode
	About string // why a Skip is not run, or the name of a Meanwhile
	Steps []Step // none of a Skip and of a Meanwhile
}

// Step is a command and what it prints.
type Step struct {
	Line    int
	Command string
	Shows   []string // lines; none if it may print anything
}

// Parse reads a page. The error names the line of a block that is neither a console
// block nor skipped, of a directive that is not known, or of a block without an end.
func Parse(name, text string) (*Page, error) {
	p := &parser{page: &Page{name: name}}
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(i+1, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
	}
	switch {
	case p.fence != "":
		return nil, fmt.Errorf("%s:%d: this block does not end", name, p.part.Line)
	case p.said:
		return nil, fmt.Errorf("%s: the last directive has no block", name)
	}
	return p.page, nil
}

// Titles returns the titles of all headings of a level, 1 for a page's own.
func (p *Page) Titles(level int) (all []string) {
	for _, h := range p.headings {
		if h.level == level {
			all = append(all, h.title)
		}
	}
	return all
}

// Section returns the parts below a heading, up to the next one of its level or above.
// The error says that there is no such heading, or more than one.
func (p *Page) Section(title string) ([]Part, error) {
	var from, to, level int
	for _, h := range p.headings {
		switch {
		case h.title == title && from > 0:
			return nil, fmt.Errorf("%s: there are two headings %q", p.name, title)
		case h.title == title:
			from, level = h.line, h.level
		case from > 0 && to == 0 && h.level <= level:
			to = h.line
		}
	}
	if from == 0 {
		return nil, fmt.Errorf("%s: there is no heading %q", p.name, title)
	}
	var parts []Part
	for _, part := range p.Parts {
		if part.Line > from && (to == 0 || part.Line < to) {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// parser reads a page line by line.
type parser struct {
	page  *Page
	fence string // that the present block began with, "" outside of one
	other bool   // the block is of another language
	said  bool   // a directive that waits for its block
	part  Part
}

func (p *parser) line(n int, line string) error {
	trimmed := strings.TrimSpace(line)
	switch {
	case p.fence != "" && trimmed == p.fence:
		p.end()
		return nil
	case p.fence != "":
		return p.inside(n, line)
	case strings.HasPrefix(trimmed, "```"):
		return p.begin(n, trimmed)
	case strings.HasPrefix(trimmed, "<!-- walk:"):
		return p.directive(n, trimmed)
	case strings.HasPrefix(line, "#"):
		title := strings.TrimLeft(line, "#")
		p.page.headings = append(p.page.headings, heading{n, len(line) - len(title), strings.TrimSpace(title)})
	}
	if p.said && trimmed != "" {
		return fmt.Errorf("the directive before this line has no block")
	}
	return nil
}

// directive reads a comment that says how the next block is run.
func (p *parser) directive(n int, line string) error {
	text, ok := strings.CutSuffix(strings.TrimPrefix(line, "<!-- walk:"), "-->")
	if !ok {
		return fmt.Errorf("a directive is one line")
	}
	if p.said {
		return fmt.Errorf("two directives for one block")
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	about := strings.TrimSpace(rest)
	mode := Mode(strings.TrimSuffix(word, ":"))
	switch mode {
	case Fails, Repeat, Stays, Interrupt:
		if about != "" {
			return fmt.Errorf("%s takes nothing more, not %q", mode, about)
		}
	case Skip, Meanwhile:
		if about == "" {
			return fmt.Errorf("%s needs to say what", mode)
		}
	default:
		return fmt.Errorf("unknown directive %q", word)
	}
	part := Part{Line: n, Mode: mode, About: about}
	if mode == Meanwhile {
		p.page.Parts = append(p.page.Parts, part)
		return nil
	}
	p.part, p.said = part, true
	return nil
}

// begin begins a block.
func (p *parser) begin(n int, line string) error {
	language := strings.TrimLeft(line, "`")
	p.fence = line[:len(line)-len(language)]
	p.other = language != "console"
	if !p.said {
		p.part = Part{}
	}
	if language == "" && p.part.Mode != Skip {
		return fmt.Errorf("this block is neither of a language nor skipped")
	}
	if p.other && p.said && p.part.Mode != Skip {
		return fmt.Errorf("a block of %q has no commands to be run", language)
	}
	p.part.Line = n
	return nil
}

// inside reads a line of a block.
func (p *parser) inside(n int, line string) error {
	if p.other || p.part.Mode == Skip {
		return nil
	}
	steps := p.part.Steps
	last := len(steps) - 1
	command, isCommand := strings.CutPrefix(strings.TrimLeft(line, " "), "$ ")
	switch {
	case last >= 0 && len(steps[last].Shows) == 0 && strings.HasSuffix(steps[last].Command, "\\"):
		steps[last].Command += "\n" + line
	case isCommand:
		p.part.Steps = append(steps, Step{Line: n, Command: command})
	case last < 0:
		return fmt.Errorf("the block begins with output: %q", line)
	default:
		steps[last].Shows = append(steps[last].Shows, line)
	}
	return nil
}

// end ends a block.
func (p *parser) end() {
	if !p.other || p.part.Mode == Skip {
		p.page.Parts = append(p.page.Parts, p.part)
	}
	p.fence, p.said, p.part = "", false, Part{}
}
