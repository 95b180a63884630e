package scenario

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"outcry/internal/lab/dialect"
)

// idsKept is how many order ids one client keeps for Verify.
const idsKept = 500

// Tally counts the answers to clients.
type Tally struct {
	Accepted, Canceled, Queried, Created uint64
	Refused                              uint64            // rejections that the scenario sometimes expects
	Reasons                              map[string]uint64 // number of expected rejections, by text without numbers
	IDs                                  []uint64          // sample of accepted orders' ids

	opened []uint64 // ids in the last reply, in order
	owed   []int    // number of answers expected for each unanswered frame, oldest first
	any    bool     // replies may be any XML
}

// commands are the beginnings of the elements that get one answer each.
var commands = [][]byte{[]byte("<order "), []byte("<query "), []byte("<cancel "), []byte("<account ")}

// sends records a frame before it is sent, and returns it.
func (t *Tally) sends(xml []byte) []byte {
	n := 0
	for _, c := range commands {
		n += bytes.Count(xml, c)
	}
	t.owes(n)
	return xml
}

// owes records a frame of n commands before it is sent.
func (t *Tally) owes(n int) { t.owed = append(t.owed, n) }

// underWay returns the number of unanswered frames.
func (t *Tally) underWay() int { return len(t.owed) }

// Add adds the counts of o.
func (t *Tally) Add(o *Tally) {
	t.Accepted += o.Accepted
	t.Canceled += o.Canceled
	t.Queried += o.Queried
	t.Created += o.Created
	t.Refused += o.Refused
	t.IDs = append(t.IDs, o.IDs...)
	for reason, n := range o.Reasons {
		if t.Reasons == nil {
			t.Reasons = map[string]uint64{}
		}
		t.Reasons[reason] += n
	}
}

// nothingRefused is passed to addReply by scenarios in which every command must succeed.
var nothingRefused func(text string) bool

// kinds are the answers in a reply: how each begins and ends.
var kinds = []struct{ begin, end string }{
	{"<opened ", "/>"},
	{"<status ", "</status>"},
	{"<canceled ", "</canceled>"},
	{"<created ", "/>"},
	{"<error", "</error>"},
}

// addReply counts the answers of the reply to the oldest unanswered frame. There must be one for each command of
// the frame. A rejection is an error unless may returns true for its text. addReply does not use an XML parser,
// which would be slower: the client shares the machine with the exchange.
func (t *Tally) addReply(reply []byte, may func(text string) bool) error {
	t.opened = t.opened[:0]
	owed, had := t.owed[0], t.Done()+t.Refused
	t.owed = append(t.owed[:0], t.owed[1:]...)
	count := t.count
	if t.any {
		count = t.countAny
	}
	if err := count(reply, may); err != nil {
		return err
	}
	if n := int(t.Done() + t.Refused - had); n != owed {
		return fmt.Errorf("%d answers to %d commands: %.200s", n, owed, reply)
	}
	return nil
}

func (t *Tally) count(reply []byte, may func(text string) bool) error {
	rest, ok := bytes.CutPrefix(reply, []byte("<results>"))
	if !ok {
		return fmt.Errorf("not a reply: %.200s", reply)
	}
	for !bytes.Equal(rest, []byte("</results>")) {
		kind := 0
		for kind < len(kinds) && !bytes.HasPrefix(rest, []byte(kinds[kind].begin)) {
			kind++
		}
		if kind == len(kinds) {
			return fmt.Errorf("not an answer: %.200s", rest)
		}
		end := bytes.Index(rest, []byte(kinds[kind].end))
		if end < 0 {
			return fmt.Errorf("an incomplete answer: %.200s", rest)
		}
		answer := rest[:end]
		rest = rest[end+len(kinds[kind].end):]
		switch kind {
		case 0:
			if err := t.accepted(answer); err != nil {
				return err
			}
		case 1:
			t.Queried++
		case 2:
			t.Canceled++
		case 3:
			t.Created++
		default:
			if err := t.refused(answer, may); err != nil {
				return err
			}
		}
	}
	return nil
}

// countAny does the same as count for replies that may be any XML. Servers word their rejections
// differently, so if a scenario expects rejections, any text is accepted.
func (t *Tally) countAny(reply []byte, may func(string) bool) error {
	root, err := dialect.ParseDoc(string(reply))
	if err != nil {
		return fmt.Errorf("%w: %.200s", err, reply)
	}
	if may != nil {
		may = func(string) bool { return true }
	}
	for _, c := range root.Children {
		switch c.Name {
		case "opened":
			id, _ := c.Attr("id")
			err = t.accepted([]byte(` id="` + id))
		case "status":
			t.Queried++
		case "canceled":
			t.Canceled++
		case "created":
			t.Created++
		case "error":
			err = t.refused([]byte(">"+c.Text), may)
		default:
			err = fmt.Errorf("not an answer: <%.50s>", c.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Tally) accepted(answer []byte) error {
	_, id, _ := bytes.Cut(answer, []byte(` id="`))
	n, err := strconv.ParseUint(string(bytes.TrimRight(id, `"`)), 10, 64)
	if err != nil {
		return fmt.Errorf("an order without an id: %s", answer)
	}
	t.Accepted++
	t.opened = append(t.opened, n)
	if len(t.IDs) < idsKept {
		t.IDs = append(t.IDs, n)
	}
	return nil
}

func (t *Tally) refused(answer []byte, may func(string) bool) error {
	_, text, _ := bytes.Cut(answer, []byte(">"))
	if may == nil || !may(string(text)) {
		return fmt.Errorf("refused: %s", text)
	}
	t.Refused++
	if t.Reasons == nil {
		t.Reasons = map[string]uint64{}
	}
	t.Reasons[withoutFigures(string(text))]++
	return nil
}

// withoutFigures removes the numbers from a text, so that texts which differ only in numbers are counted
// together.
func withoutFigures(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// tooLate reports whether a cancel was rejected because its order was executed.
func tooLate(text string) bool { return strings.Contains(text, "has nothing open") }

// Done returns how many commands succeeded.
func (t *Tally) Done() uint64 { return t.Accepted + t.Canceled + t.Queried + t.Created }
