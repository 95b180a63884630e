package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"outcry/internal/lab/dialect"
)

// racesMax is how often a failing case of concurrency is played at once.
const racesMax = 3

// CannotKill is the outcome of a case that kills the server if the server cannot be killed.
var CannotKill = Outcome{Status: Skip, Message: cannotKill.Error()}

// Kills reports whether c kills the server.
func (c *Case) Kills() bool { return c.has(func(v *verb) bool { return v.kills }) }

// has reports whether c has a verb for which is returns true.
func (c *Case) has(is func(v *verb) bool) bool {
	return slices.ContainsFunc(c.Steps, func(s Step) bool { return s.kind == act && is(s.verb) })
}

// Play plays a case. It fails at the first line that does not hold. A case of the group concurrency is first played
// with one connection after another, and is skipped if it fails that way. The case's time limit applies to all its
// plays together, not counting restarts of the server.
func (p *Player) Play(ctx context.Context, c *Case) Outcome {
	if p.Kill == nil && c.Kills() {
		return CannotKill
	}
	races := c.Group == "concurrency" && c.has(func(v *verb) bool { return v.races })
	left := c.Time
	if races {
		if out := p.once(ctx, c, partsOf(c)[0], true, &left); out.Status != Pass {
			out.Message = "Not tried at the same moment: it already fails with one connection after another, and other groups " +
				"count that. " + out.Message
			out.Status, out.Share = Skip, 0
			return out
		}
	}
	parts, passed := partsOf(c), 0
	result := Outcome{Status: Pass, Share: 1, Tries: 1}
	for _, part := range parts {
		out := p.part(ctx, c, part, races, &left)
		if out.Status == Pass {
			if passed++; result.Status == Pass {
				result.Conversation = out.Conversation
			}
			continue
		}
		if result.Status == Pass {
			result = out
			if part != "" {
				result.Message = fmt.Sprintf("With %s: %s", part, out.Message)
			}
		}
		if result.Trouble = result.Trouble || out.Trouble; out.Trouble {
			break // the server hangs or has ended
		}
	}
	if passed > 0 && passed < len(parts) {
		result.Status, result.Share = Part, float64(passed)/float64(len(parts))
	}
	return result
}

// part plays a part of a case. If it has races and fails, it is played three times in all.
func (p *Player) part(ctx context.Context, c *Case, part string, races bool, left *time.Duration) Outcome {
	out := p.once(ctx, c, part, false, left)
	if !races || out.Status == Pass || out.Trouble {
		return out
	}
	right := 0
	for out.Tries < racesMax && *left > 0 && ctx.Err() == nil {
		again := p.once(ctx, c, part, false, left)
		out.Tries++
		if again.Status == Pass {
			right++
		}
		if again.Trouble {
			out.Trouble = true
			break
		}
	}
	if right > 0 {
		out.Message = fmt.Sprintf("flaky %d/%d: it passed in %d of %d tries. In another try: %s", right, out.Tries, right,
			out.Tries, out.Message)
	}
	return out
}

// once plays a conversation, and subtracts the time that it took from *left.
func (p *Player) once(ctx context.Context, c *Case, part string, orderly bool, left *time.Duration) Outcome {
	pl := p.newPlay(c, part, orderly)
	pl.left = *left
	err := pl.run(ctx)
	*left = pl.left
	if err == nil && c.Risk == 0 {
		return Outcome{Status: Pass, Share: 1, Tries: 1}
	}
	said := pl.trace.lines(pl.tokens())
	if err == nil { // the case has a risk, so it may have brought the server down
		return Outcome{Status: Pass, Share: 1, Tries: 1, Conversation: said}
	}
	out := Outcome{Status: Fail, Tries: 1, Message: pl.message(ctx, err), Conversation: said}
	var broken *dialect.Broken
	var not *skipped
	switch {
	case errors.As(err, &not):
		out.Status = Skip
	case errors.As(err, &broken):
		out.Trouble = broken.Kind != dialect.TooLarge && broken.Kind != dialect.NotXML
	case !isWrong(err): // out of time
		out.Trouble = true
	}
	return out
}

func isWrong(err error) bool {
	var w *wrong
	return errors.As(err, &w)
}

// message returns what is wrong, for the author of the server.
func (p *play) message(ctx context.Context, err error) string {
	var broken *dialect.Broken
	var bad *wrong
	switch {
	case errors.As(err, &bad):
		return sentence(bad.message)
	case ctx.Err() != nil:
		return "The run was stopped."
	case p.left <= 0:
		return fmt.Sprintf("The case took more than its %v s.", p.c.Time.Seconds())
	case errors.As(err, &broken):
		return sentence("the server " + broken.Kind.String())
	}
	return sentence(err.Error())
}

// sentence returns s with a capital at its start and a full stop at its end.
func sentence(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[n:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// tokens returns the account ids and symbols of the play, by which the trace relates frames to each other.
func (p *play) tokens() []string {
	var all []string
	for _, value := range p.names {
		all = append(all, value)
	}
	return all
}

// run plays all steps. The error is that of the first step that does not hold.
func (p *play) run(ctx context.Context) error {
	defer p.close()
	for i := range p.c.Steps {
		s := p.c.Steps[i]
		if s.kind == act && s.verb.untimed {
			if err := p.step(ctx, &s); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		timed, cancel := context.WithTimeout(ctx, max(p.left, 0))
		err := p.step(timed, &s)
		cancel()
		if p.left -= time.Since(began); err != nil {
			return err
		}
	}
	return nil
}

// step plays a line.
func (p *play) step(ctx context.Context, s *Step) error {
	switch s.kind {
	case send:
		doc, err := p.expander("").expand(s.text)
		if err != nil {
			return err
		}
		return p.send(ctx, s.conn, doc)
	case raw:
		return p.sendBytes(ctx, s.conn, s.text)
	case want:
		return p.expect(ctx, s.conn, s.text)
	case closed:
		return p.expectClosed(ctx, s.conn)
	case act:
	}
	args, err := p.expander("").expand(s.text)
	if err != nil {
		return err
	}
	s.args = strings.Fields(args)
	return s.verb.run(ctx, p, s)
}

// expander returns the expander of braces and $ values for this play. n is the value of {n}.
func (p *play) expander(n string) *expander {
	return &expander{
		habits: p.Habits,
		name: func(name string) (string, bool) {
			switch {
			case name == "part":
				return p.part, p.part != ""
			case name == "n":
				return n, n != ""
			}
			return p.name(name), true
		},
		value: func(name string) (string, bool) {
			value, ok := p.vars[name]
			return value, ok
		},
	}
}

// wants parses a WANT. n is the value of {n}.
func (p *play) wants(text, n string) (elements []*dialect.Element, anything bool, err error) {
	x := p.expander(n)
	x.value = nil
	return parseWant(x, text)
}

// sendBytes sends bytes. Each {frame} and {crlf} in them expects a reply.
func (p *play) sendBytes(ctx context.Context, n int, text string) error {
	x := p.expander("")
	x.raw = true
	b, err := x.expand(text)
	if err != nil {
		return err
	}
	quoted := strings.Trim(strconv.Quote(b[:min(len(b), lineMax)]), `"`)
	turn := p.trace.sent(n, "bytes", strings.ReplaceAll(quoted, `\"`, `"`))
	ch, err := p.channel(ctx, n)
	if err != nil {
		return err
	}
	for range strings.Count(text, "{frame ") + strings.Count(text, "{crlf ") {
		ch.owed = append(ch.owed, owed{turn: turn})
	}
	return ch.write(ctx, []byte(b))
}

// expect compares the next reply of a connection with a WANT.
func (p *play) expect(ctx context.Context, n int, text string) error {
	elements, anything, err := p.wants(text, "")
	if err != nil {
		return err
	}
	m := &matcher{vars: p.vars, orders: p.orders}
	reply, from, err := p.receive(ctx, n)
	if err != nil {
		p.trace.broken(n, from.turn, err)
		p.trace.wanted(from.turn, m.wanted(elements, anything))
		return err
	}
	if anything {
		return nil
	}
	if err := m.answers(elements, answersOf(reply.Root), from.doc); err != nil {
		p.trace.wanted(from.turn, m.wanted(elements, false))
		return err
	}
	p.vars = m.vars
	p.remember(from.doc, answersOf(reply.Root))
	reply.Judge()
	return nil
}

// expectClosed waits until the server has closed a connection. The server may first send one reply of errors.
func (p *play) expectClosed(ctx context.Context, n int) error {
	ch, err := p.channel(ctx, n)
	if err != nil {
		return err
	}
	last, err := ch.conn.WaitClosed(ctx)
	delete(p.channels, n)
	ch.conn.Close()
	if last != nil {
		p.trace.got(n, p.trace.turn, last.Raw)
		for _, e := range answersOf(last.Root) {
			if e.Name != "error" {
				p.trace.wanted(p.trace.turn, "the connection is closed")
				return wrongf("The server must close the connection, and do nothing: it answered %s.", show(e))
			}
		}
	}
	if err != nil {
		p.trace.wanted(p.trace.turn, "the connection is closed")
		if ctx.Err() == nil {
			return wrongf("The server must close the connection, but left it open.")
		}
	}
	return err
}

// answersOf returns the answers in a reply. A root <error> counts as the only answer: the wrong root is reported as a
// formal error.
func answersOf(root *dialect.Element) []*dialect.Element {
	if root.Name == "error" {
		return []*dialect.Element{root}
	}
	return root.Children
}

// wanted returns the wanted reply as text, with the known values of $ filled in.
func (m *matcher) wanted(elements []*dialect.Element, anything bool) string {
	if anything {
		return "any reply"
	}
	return write(&dialect.Element{Name: "results", Children: m.filled(elements)})
}

var cannotKill = &skipped{"This needs a server that outcry starts itself, and can kill: --start or --compose."}
