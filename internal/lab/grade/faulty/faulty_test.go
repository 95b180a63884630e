package faulty

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/model"
)

func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// patience is how long tests wait for something that must happen.
const patience = time.Minute

// begin starts a server, which is stopped when the test ends.
func begin(t *testing.T, o Options) (addr string) {
	t.Helper()
	addr, stop, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(stop)
	return addr
}

// talk sends bytes on a new connection, shuts down its sending side, and returns all that it receives.
func talk(t *testing.T, addr string, sent string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, sent)
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	came, _ := io.ReadAll(c) // the connection may be reset
	return string(came)
}

// ask sends documents on one connection, and returns the replies without length lines.
func ask(t *testing.T, addr string, docs ...string) string {
	t.Helper()
	var sent strings.Builder
	for _, doc := range docs {
		sent.WriteString(framed(doc))
	}
	return unframed(talk(t, addr, sent.String()))
}

// unframed removes the length lines from replies.
func unframed(came string) string {
	var all strings.Builder
	for came != "" {
		line, rest, _ := strings.Cut(came, "\n")
		n, err := strconv.Atoi(line)
		if err != nil || n > len(rest) {
			return all.String() + came
		}
		all.WriteString(rest[:n])
		came = rest[n:]
	}
	return all.String()
}

// later reports whether a transcript uses features beyond the course's protocol: instructions, refs, limits on
// sums, or details of documents and replies.
func later(name string) bool {
	return strings.HasPrefix(name, "instructions-") ||
		slices.Contains([]string{"refs", "identity", "totals", "documents", "echoes", "frames-bad-bytes"}, name)
}

// played plays a transcript, and returns the replies in the form of transcripts.
func played(t *testing.T, o Options, transcript model.Transcript) (replies []string) {
	addr := begin(t, o)
	for _, step := range transcript.Steps {
		sent := string(step.Send)
		if !step.Raw {
			sent = framed(sent)
		}
		replies = append(replies, string(model.Normalize([]byte(unframed(talk(t, addr, sent))))))
	}
	return replies
}

func TestWithoutAFaultItIsRight(t *testing.T) {
	all, err := model.Transcripts()
	require.NoError(t, err)
	n := 0
	for _, transcript := range all {
		if later(transcript.Name) {
			continue
		}
		n++
		t.Run(transcript.Name, func(t *testing.T) {
			var wanted []string
			for _, step := range transcript.Steps {
				wanted = append(wanted, step.Want)
			}
			require.Equal(t, wanted, played(t, Options{}, transcript))
		})
	}
	require.Greater(t, n, 20)
}

// story is a conversation in which every fault that one connection can show changes the replies of the correct
// server. Orders count from 1.
var story = []string{
	`<create><account id="1" balance="1000"/><account id="2" balance="1000.1"/><account id="1" balance="7"/>` +
		`<account id="5" balance="-1"/><account id="x" balance="1"/><symbol sym="A"><account id="1">100</account>` +
		`<account id="2">100</account><account id="9">1</account></symbol>
		<symbol sym="B"><account id="1">50</account></symbol></create>`,
	`<create><symbol sym="A"><account id="1">10</account></symbol><symbol sym="A1"/></create>`,
	`<transactions id="1"><order sym="A" amount="-10" limit="10"/><order sym="A" amount="-10" limit="10"/>` +
		`<order sym="A" amount="-10" limit="9"/><order sym="A" amount="-101" limit="10"/>
		<order sym="A" amount="0" limit="1"/>` +
		`<order sym="Z" amount="1" limit="1"/><order sym="A" amount="1e1" limit="1"/><order sym="A" amount="1"/>` +
		`<order sym="B" amount="-5" limit="20"/><bad/><query id="1"/></transactions>`,
	`<transactions id="2"><query id="1"/><order sym="A" amount="15" limit="12"/>
		<query id="1"/><query id="3"/><query id="5"/>` +
		`<order sym="A" amount="2" limit="10"/><query id="1"/><query id="2"/><query id="6"/></transactions>`,
	`<transactions id="2"><order sym="A" amount="100" limit="12"/>
		<order sym="A" amount="50" limit="0.1"/></transactions>`,
	`<transactions id="1"><cancel id="7"/><order sym="A" amount="1" limit="100"/>
		<cancel id="2"/><cancel id="2"/><cancel id="1"/></transactions>`,
	`<transactions id="2"><order sym="A" amount="10" limit="9"/>
		<cancel id="8"/><cancel id="8"/><cancel id="7"/></transactions>`,
	`<transactions id="2"><order sym="A" amount="70.101" limit="10"/>
		<order sym="A" amount="1" limit="700"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="-3" limit="5"/>
		<order sym="A" amount="3" limit="5"/><order sym="A" amount="-81" limit="500"/>
		</transactions>`,
	`<transactions id="9"><order sym="A" amount="1" limit="1"/><query id="1"/></transactions>`,
	`<transactions id="1">` + strings.Repeat(`<query id="1"/>`, childrenMost+1) + `</transactions>`,
	`<!DOCTYPE a><transactions id="1"><query id="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="-1" limit="77"/><query id="1"></transactions>`,
	`<transactions id="1"><query id="11"/><query id="12"/><query id="13"/><query id="14"/></transactions>`,
	`<create><account id="11" balance="100"/><account id="12" balance="10"/><account id="13" balance="0.3"/>
		<symbol sym="M"><account id="12">10</account></symbol>
		<symbol sym="P"><account id="12">10</account></symbol></create>`,
	`<transactions id="12"><order sym="M" amount="-4" limit="5"/></transactions>`,
	`<transactions id="11"><order sym="M" amount="4" limit="6"/><order sym="M" amount="-4" limit="50"/>
		<order sym="P" amount="1" limit="80"/></transactions>`,
	`<transactions id="12"><order sym="P" amount="1" limit="30"/><order sym="M" amount="-5" limit="1"/></transactions>`,
	`<transactions id="13"><order sym="M" amount="3" limit="0.1"/>
		<query id="15"/><query id="16"/><query id="17"/></transactions>`,
}

// refund is a conversation that shows a refund that is too large: 4 of 10 shares have executed before the cancel.
var refund = []string{`<create><account id="21" balance="50"/><account id="22" balance="0"/>
		<symbol sym="R"><account id="22">4</account></symbol></create>`,
	`<transactions id="21"><order sym="R" amount="10" limit="5"/></transactions>`,
	`<transactions id="22"><order sym="R" amount="-4" limit="5"/></transactions>`,
	`<transactions id="21"><cancel id="1"/><order sym="R" amount="1" limit="31"/>
		<order sym="R" amount="1" limit="30"/></transactions>`}

// storyReplies returns a server's replies to story and refund.
func storyReplies(t *testing.T, o Options) string {
	return ask(t, begin(t, o), story...) + ask(t, begin(t, o), refund...)
}

// The test plays the story with each fault that one connection can show in the XML.
func TestEachFaultIsSeen(t *testing.T) {
	right := string(model.Normalize([]byte(storyReplies(t, Options{}))))
	require.Equal(t, len(story)+len(refund), strings.Count(right, "</results>"))
	for _, f := range Faults {
		if slices.Contains([]string{"frames", "concurrency", "durability"}, f.Group) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			came := storyReplies(t, Options{Faults: []string{f.Name}})
			if f.Name == "milliseconds" {
				require.Regexp(t, ` time="[0-9]{13}"`, came)
			} else {
				require.NotEqual(t, right, string(model.Normalize([]byte(came))))
			}
		})
	}
}

func TestTheFaultsOfFramesAreSeen(t *testing.T) {
	const query = "<create/>"
	for name, sent := range map[string]string{
		"pipelined-lost":      framed(query) + framed(query),
		"half-close-hangs-up": framed(query),
		"strict-length":       "\n" + framed(query),
		"error-hangs-up":      framed("<bad/>") + framed(query),
	} {
		t.Run(name, func(t *testing.T) {
			right := talk(t, begin(t, Options{}), sent)
			require.Contains(t, right, "<results/>")
			require.NotEqual(t, right, talk(t, begin(t, Options{Faults: []string{name}}), sent))
		})
	}
	t.Run("split-frames", func(t *testing.T) {
		c, err := net.Dial("tcp", begin(t, Options{Faults: []string{"split-frames"}}))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(c, "9\n<cre")
		require.NoError(t, err)
		came := make([]byte, 1024) // the server answers before the frame is complete
		n, err := c.Read(came)
		require.NoError(t, err)
		require.Contains(t, string(came[:n]), "<error>")
	})
	t.Run("cut-off-done", func(t *testing.T) {
		for _, faults := range [][]string{nil, {"cut-off-done"}} {
			addr := begin(t, Options{Faults: faults})
			require.Empty(t, talk(t, addr, "100\n"+`<create><account id="1" balance="1"/>`))
			came := ask(t, addr, `<create><account id="1" balance="1"/></create>`)
			require.Equal(t, faults != nil, strings.Contains(came, "<error"), came)
		}
	})
}

// atOnce sends a document on n connections at the same moment, and returns the replies, sorted.
func atOnce(t *testing.T, addr string, n int, doc func(i int) string) []string {
	t.Helper()
	replies := make([]string, n)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		all.Go(func() {
			<-start
			_, _ = io.WriteString(c, framed(doc(i))) // if the server has closed, its replies show it
			_ = c.(*net.TCPConn).CloseWrite()
			came, _ := io.ReadAll(c)
			replies[i] = unframed(string(came))
		})
	}
	close(start)
	all.Wait()
	slices.Sort(replies)
	return replies
}

// races has, by fault, the frames that prepare a race, the document that several connections then send at once, and
// a condition that the replies of a correct server meet.
var races = map[string]struct {
	before []string
	doc    string
	right  func(replies []string) bool
}{
	"racing-balance": {[]string{`<create><account id="1" balance="10"/><symbol sym="A"/></create>`},
		`<transactions id="1"><order sym="A" amount="1" limit="10"/></transactions>`, once("<opened")},
	"racing-account": {nil, `<create><account id="1" balance="10"/></create>`, once("<created")},
	"racing-cancel": {[]string{`<create><account id="1" balance="10"/><symbol sym="A"/></create>`,
		`<transactions id="1"><order sym="A" amount="1" limit="10"/></transactions>`},
		`<transactions id="1"><cancel id="1"/></transactions>`, once("<canceled shares")},
	"racing-ids": {[]string{`<create><account id="1" balance="100000"/><symbol sym="A"/></create>`},
		`<transactions id="1"><order sym="A" amount="1" limit="10"/></transactions>`,
		func(replies []string) bool { return len(slices.Compact(slices.Clone(replies))) == len(replies) }},
	"racing-trades": {[]string{`<create><account id="1" balance="100000"/><account id="2" balance="0"/>` +
		`<symbol sym="A"><account id="2">5</account></symbol></create>`,
		`<transactions id="2"><order sym="A" amount="-5" limit="10"/></transactions>`},
		`<transactions id="1"><order sym="A" amount="5" limit="10"/><query id="1"/></transactions>`,
		func(replies []string) bool {
			return !slices.ContainsFunc(replies, func(s string) bool { return strings.Count(s, "<executed") != 1 })
		}},
	"few-connections": {nil, `<create/>`,
		func(replies []string) bool { return !slices.Contains(replies, "") }},
}

// once returns a condition that exactly one reply contains part.
func once(part string) func([]string) bool {
	return func(replies []string) bool {
		return len(slices.DeleteFunc(slices.Clone(replies), func(s string) bool { return !strings.Contains(s, part) })) == 1
	}
}

// roundsMost is the maximum number of attempts at a race until the fault shows.
const roundsMost = 50

func TestTheRacingFaultsAreSeen(t *testing.T) {
	for _, f := range Faults {
		if f.Group != "concurrency" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			race := races[f.Name]
			play := func(o Options) bool {
				addr, stop, err := Start(o)
				require.NoError(t, err)
				defer stop()
				for _, doc := range race.before {
					ask(t, addr, doc)
				}
				return race.right(atOnce(t, addr, connectionsFew+8, func(int) string { return race.doc }))
			}
			require.True(t, play(Options{}), "the right server")
			for range roundsMost {
				if !play(Options{Faults: []string{f.Name}}) {
					return
				}
			}
			t.Errorf("%s is right in each of %d rounds", f.Name, roundsMost)
		})
	}
}

func TestTheHabitsAreThoseOfTheReplies(t *testing.T) {
	two := framed("<create/>") + framed("<create/>")
	require.Equal(t, "10\n<results/>10\n<results/>", talk(t, begin(t, Options{}), two))
	for want, h := range map[string]dialect.Habits{
		"<results/><results/>":         {Bare: true},
		"13\n<results/>13\n<results/>": {WrongLength: true},
		"9\n<result/>9\n<result/>":     {ResultRoot: true},
		"10\n<results/>":               {OneFrame: true},
		"":                             {CRLF: true},
	} {
		require.Equal(t, want, talk(t, begin(t, Options{Habits: h}), two))
	}
	require.Equal(t, "10\n<results/>", talk(t, begin(t, Options{Habits: dialect.Habits{CRLF: true}}), "9\r\n<create/>"))
	account := `<create><account id="1" balance="1"/><account id="2" balance="1.5"/></create>`
	require.Equal(t, 1, strings.Count(ask(t, begin(t, Options{Habits: dialect.Habits{Whole: true}}), account), "<error"))
	for attribute, errors := range map[string]int{"account": 1, "id": 2} {
		addr := begin(t, Options{Habits: dialect.Habits{AccountAttribute: true}})
		came := ask(t, addr, `<create><account id="1" balance="1"/><symbol sym="A"/></create>`,
			`<transactions `+attribute+`="1"><order sym="A" amount="1" limit="1"/><query id="7"/></transactions>`)
		require.Equal(t, errors, strings.Count(came, "<error"), came)
	}
}

func TestTheTwinAnswersInItsPlace(t *testing.T) {
	addr := begin(t, Options{Twin: func(doc []byte, now int64) []byte { return bytes.ToUpper(doc) }})
	require.Equal(t, "<A/><B/>", ask(t, addr, "<a/>", "<b/>"))
}

func TestWhatThereIsNotIsRefused(t *testing.T) {
	for name, o := range map[string]Options{"fault": {Faults: []string{"none"}}, "hostility": {Hostile: "none"}} {
		_, _, err := Start(o)
		require.EqualError(t, err, fmt.Sprintf("faulty: there is no %s %q", name, "none"))
		_, err = Command("true", o)
		require.Error(t, err)
	}
	_, _, err := Start(Options{Journal: t.TempDir()})
	require.ErrorContains(t, err, "is a directory")
}

// The test starts each hostile server, sends something malformed, and stops it.
func TestTheHostileEnd(t *testing.T) {
	require.Equal(t, len(Hostilities), len(hostile))
	for _, name := range Hostilities {
		t.Run(name, func(t *testing.T) {
			addr := begin(t, Options{Hostile: name})
			c, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			_, err = io.WriteString(c, framed("<create/>")+framed("<malformed"))
			require.NoError(t, err)
			came := make([]byte, 10)
			switch name {
			case "silent":
				require.NoError(t, c.(*net.TCPConn).CloseWrite())
				_, err = io.ReadFull(c, came)
				require.Equal(t, io.EOF, err)
			case "closes", "resets":
				_, err = c.Read(came)
				require.Error(t, err)
			default:
				_, err = io.ReadFull(c, came)
				require.NoError(t, err)
			}
		})
	}
}
