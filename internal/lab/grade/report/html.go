package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"

	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/printable"
)

//go:embed page.css
var pageStyle string

// page is a page of HTML, also valid XML, while it is written. It does not use html/template, because that makes the
// linker keep every method of the program, 2.4 MB of them.
type page struct{ strings.Builder }

// add appends a constant format, each %s of which is replaced by a value's escaped text, so that nothing that a server
// sent becomes markup or ends a quoted attribute.
func (p *page) add(format string, values ...any) {
	texts := make([]any, len(values))
	for i, v := range values {
		text, ok := v.(string)
		if f, number := v.(float64); number {
			text = figure(f)
		} else if !ok {
			text = fmt.Sprint(v)
		}
		texts[i] = html.EscapeString(printable.Text(text))
	}
	fmt.Fprintf(p, format, texts...)
}

// WriteHTML writes r as a single page that loads nothing and runs no script.
func WriteHTML(w io.Writer, r *grade.Result) error {
	p, groups := new(page), grouped(r)
	p.add(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Grade of %s</title>
<style>
`, r.Target)
	p.WriteString(pageStyle)
	p.add("</style>\n</head>\n<body>\n<h1>Grade of %s</h1>\n", r.Target)
	p.add("<p><span class=\"score\">%s</span> of %s<br/>\n%s. %s s, seed %s", r.Score, r.Best, statistics(groups),
		r.Seconds, r.Seed)
	if r.Restarts > 0 {
		p.add("; the server was restarted %s times,\nsince it did not answer", r.Restarts)
	}
	p.add(".</p>\n")
	p.addHabits(habits(r.Habits))
	p.addGroups(r, groups)
	p.addFailures(failures(r))
	p.add("<h2>All cases</h2>\n")
	for i := range groups {
		p.addCases(&groups[i])
	}
	if r.Log != "" {
		p.add("<h2>What the server printed last</h2>\n<pre>%s</pre>\n", r.Log)
	}
	p.add("</body>\n</html>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

// statistics returns how many cases have each status.
func statistics(groups []group) string {
	counts := map[script.Status]int{}
	for _, g := range groups {
		for _, c := range g.cases {
			counts[c.Status]++
		}
	}
	var parts []string
	for _, s := range []struct {
		status script.Status
		tell   string
	}{{script.Pass, "passed"}, {script.Part, "partly passed"}, {script.Fail, "failed"}, {script.Skip, "not counted"}} {
		if n := counts[s.status]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", s.tell))
		}
	}
	return strings.Join(parts, ", ")
}

func (p *page) addHabits(found []string) {
	if len(found) == 0 {
		return
	}
	p.add("<h2>How this server speaks</h2>\n<p>Found by probing. The cases speak with the server in the same way; " +
		"each of these costs its own case only.</p>\n<ul>")
	for _, habit := range found {
		p.add("<li>%s</li>", habit)
	}
	p.add("</ul>\n")
}

func (p *page) addGroups(r *grade.Result, groups []group) {
	p.add("<h2>Groups</h2>\n<table>\n" +
		`<tr><th>group</th><th class="number">points</th><th class="number">of</th><th></th></tr>` + "\n")
	for _, g := range groups {
		p.add(`<tr><td><a href="#group-%s">%s</a></td><td class="number">%s</td><td class="number">%s</td>`,
			g.Name, g.Name, g.Points, g.Max)
		p.add(`<td><progress max="100" value="%s"></progress></td></tr>`+"\n", g.share())
	}
	if got, most, scaled := sum(r); scaled {
		p.add(`<tr><td>sum</td><td class="number">%s</td><td class="number">%s</td>`, got, most)
		p.add("<td>scaled to the score</td></tr>\n")
	}
	p.add("</table>\n")
}

// share returns the percentage of its points that a group got, from 0 to 100.
func (g *group) share() int {
	if g.Max <= 0 {
		return 0
	}
	return max(0, min(100, int(100*g.Points/g.Max)))
}

// addFailures adds the failed cases, with their conversations.
func (p *page) addFailures(failed []grade.CaseResult) {
	if len(failed) == 0 {
		return
	}
	p.add("<h2>What is wrong</h2>\n<p>Lines with &gt; were sent, lines with &lt; came back, and ! says what " +
		"was expected.</p>\n")
	for _, c := range failed {
		p.addFailure(&c)
	}
}

func (p *page) addFailure(c *grade.CaseResult) {
	p.add("<h3>%s: %s</h3>\n", c.Name, worth(c))
	p.add(`<p><span class="rule">PROTOCOL, %s.</span> %s`, c.Rule, c.Tell)
	if c.Message != "" {
		p.add("<br/>%s", c.Message)
	}
	p.add("</p>\n")
	if len(c.Conversation) == 0 {
		return
	}
	p.add("<pre>")
	for _, line := range c.Conversation {
		p.add(`<span class="%s">%s</span>`, lineKind(line), line)
	}
	p.add("</pre>\n")
}

// addCases adds a table of all cases of a group.
func (p *page) addCases(g *group) {
	p.add(`<h3 id="group-%s">%s</h3>`+"\n<table>\n", g.Name, g.Name)
	p.add("<tr><th>case</th><th>rule</th><th>what must hold</th><th></th>" +
		`<th class="number">points</th><th class="number">of</th></tr>` + "\n")
	for _, c := range g.cases {
		p.add("<tr><td>%s</td><td>%s</td><td>%s", c.Name, c.Rule, c.Tell)
		if c.Status == script.Skip {
			p.add(" (%s)", c.Message)
		}
		p.add(`</td><td class="%s">%s</td><td class="number">%s</td><td class="number">%s</td></tr>`+"\n", c.Status,
			c.Status, c.Points, c.Max)
	}
	p.add("</table>\n")
}

// lineKind returns the CSS class of a line of a conversation.
func lineKind(line string) string {
	switch {
	case strings.HasPrefix(line, ">"):
		return "sent"
	case strings.HasPrefix(line, "<"):
		return "got"
	case strings.HasPrefix(line, "!"):
		return "wanted"
	}
	return "other"
}
