package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"outcry/internal/lab/dialect"
)

// Limits on how much of a conversation is kept and shown.
const (
	conversationMax = 4 << 10 // bytes of all lines
	lineMax         = 700     // bytes of one line
	fullMax         = 8 << 10 // bytes of one line that are searched for accounts and symbols
	entriesMax      = 500     // lines of a conversation that are kept while it is played
)

// trace records the conversation of a play. Turns number the frames, so that a reply is shown with its frame.
type trace struct {
	entries []entry
	turn    int // turn of the newest frame
	failed  int // turn of the frame whose reply is wrong
}

// entry is a line of the conversation.
type entry struct {
	turn int    // 0: the entry belongs to no frame, and is always shown
	full string // the first fullMax bytes of the frame or reply
	text string // the line as it is shown
}

// sent records a frame and returns its turn. on is added to the connection's number, and may be empty.
func (t *trace) sent(conn int, on, text string) int {
	t.turn++
	t.add(t.turn, ">", conn, on, text)
	return t.turn
}

// got records a reply to the frame of a turn.
func (t *trace) got(conn, turn int, text string) {
	t.add(turn, "<", conn, "", withoutLength(text))
}

// withoutLength returns a raw reply without its length line, which only the group form judges.
func withoutLength(raw string) string { return strings.TrimLeft(raw, "0123456789 \t\r\n") }

// addEvent records an event of a connection that is neither a frame nor a reply.
func (t *trace) addEvent(conn int, text string) {
	t.add(0, ">", 1, fmt.Sprintf("connection %d %s", conn, text), "")
}

// wanted records the wanted reply to the frame of a turn, which failed.
func (t *trace) wanted(turn int, text string) {
	t.failed = turn
	t.add(turn, "!", 1, "", text)
}

// broken records what arrived instead of a reply.
func (t *trace) broken(conn, turn int, err error) {
	var b *dialect.Broken
	if errors.As(err, &b) {
		t.add(turn, "<", conn, b.Kind.String(), b.Got)
	}
}

// reset removes all entries; turns continue.
func (t *trace) reset() { *t = trace{turn: t.turn} }

func (t *trace) add(turn int, direction string, conn int, on, text string) {
	if on == "" && conn > 1 {
		on = fmt.Sprintf("connection %d", conn)
	}
	if on != "" {
		on = " [" + on + "]"
	}
	t.entries = append(t.entries, entry{turn, strings.Clone(text[:min(len(text), fullMax)]),
		strings.TrimRight(direction+on+" "+elide(text, lineMax), " ")})
	if len(t.entries) > entriesMax {
		t.entries = slices.Delete(t.entries, 0, len(t.entries)-entriesMax)
	}
}

// elide returns text without its middle if it is longer than most bytes. It replaces line feeds and other
// control characters.
func elide(text string, most int) string {
	text = text[:min(len(text), fullMax)]
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(text), "�"))
	if len(text) <= most {
		return text
	}
	head, tail := text[:most/2], text[len(text)-most/3:]
	return strings.ToValidUTF8(head, "") + " … " + strings.ToValidUTF8(tail, "")
}

// lines returns the shortest conversation that shows a failure: the frame that failed, and the earlier frames that
// name one of its accounts or symbols, directly or through other frames. tokens are all accounts and symbols of the
// case. A frame that names no token is kept.
func (t *trace) lines(tokens []string) []string {
	if t.failed == 0 {
		t.failed = t.turn
	}
	named := map[int][]string{} // by turn, the tokens that its frame names
	for _, e := range t.entries {
		for _, token := range tokens {
			if e.turn > 0 && strings.Contains(e.full, token) {
				named[e.turn] = append(named[e.turn], token)
			}
		}
	}
	related, before := slices.Clone(named[t.failed]), -1
	for len(related) > before {
		before = len(related)
		for turn := t.failed; turn > 0; turn-- {
			if !share(named[turn], related) {
				continue
			}
			for _, token := range named[turn] {
				if !slices.Contains(related, token) {
					related = append(related, token)
				}
			}
		}
	}
	var lines []string
	for _, e := range t.entries {
		if len(named[e.turn]) == 0 || len(related) == 0 || share(named[e.turn], related) {
			lines = append(lines, e.text)
		}
	}
	return bounded(lines)
}

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// bounded returns the newest lines that fit in conversationMax bytes.
func bounded(lines []string) []string {
	bytes := 0
	for i := len(lines) - 1; i >= 0; i-- {
		if bytes += len(lines[i]) + 1; bytes > conversationMax-100 {
			return append([]string{fmt.Sprintf("> … (%d lines before this)", i+1)}, lines[i+1:]...)
		}
	}
	return lines
}
