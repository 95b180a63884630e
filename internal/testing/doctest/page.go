// Package doctest runs the commands of a page of documentation in a shell, and compares their output with the output
// that the page shows. So a test keeps the page and the programs consistent.
//
// Commands are in fenced blocks of the language console. A line that begins with "$ " is a command, which a
// backslash at its end continues on the next line. The lines up to the next command are its output. A command
// without shown output may print anything. Each command must end with status 0.
//
// In shown output, … stands for any text within a line, and a line that consists of … for any number of
// lines. A time, a number of ten digits, and a number of 32 or 64 hexadecimal digits stand for any other of
// the same form.
//
// A comment before a block changes how it is run:
//
//	<!-- walk: fails -->          its last command must fail
//	<!-- walk: repeat -->         each command is repeated until it prints what is shown
//	<!-- walk: stays -->          its command stays in the background once it has printed what is shown
//	<!-- walk: interrupt -->      its command is ended with Ctrl-C once it has printed what is shown
//	<!-- walk: skip: REASON -->   it is not run, for the reason
//	<!-- walk: meanwhile NAME --> without a block: something that people or machines do at this point, and
//	                              that is not a command of the page
//
// Blocks of other languages are not run. A block without a language must be marked with skip, so that none is
// left out by accident.
package doctest

import (
	"fmt"
	"strings"
)

// Mode determines how a part of a page is run.
type Mode string

// The modes.
const (
	Plain     Mode = ""          // one command after the other
	Fails     Mode = "fails"     // the last command must fail
	Repeat    Mode = "repeat"    // each command is repeated until it prints what is shown
	Stays     Mode = "stays"     // the command stays in the background
	Interrupt Mode = "interrupt" // the command is interrupted once it has printed the shown output
	Skip      Mode = "skip"      // the block is not run
	Meanwhile Mode = "meanwhile" // not a block: the test calls a function
)

// Page is a page of documentation: its parts in order.
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
	Line  int // line of the page, counted from 1
	Mode  Mode
	About string // reason of a Skip, or name of a Meanwhile
	Steps []Step // empty for a Skip and a Meanwhile
}

// Step is a command and its shown output.
type Step struct {
	Line    int
	Command string
	Shows   []string // lines of output; empty if it may print anything
}

// Parse reads a page. The error names the line of a block without a language that is not skipped, of an
// unknown directive, or of a block without an end.
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

// Titles returns the titles of all headings of a level; the page's title has level 1.
func (p *Page) Titles(level int) (all []string) {
	for _, h := range p.headings {
		if h.level == level {
			all = append(all, h.title)
		}
	}
	return all
}

// Section returns the parts below a heading, up to the next heading of the same or a higher level. The error
// says that there is no such heading, or more than one.
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
	fence string // start of the current block's fence, or "" outside a block
	other bool   // the current block is of another language
	said  bool   // a directive was read, but its block has not begun
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
