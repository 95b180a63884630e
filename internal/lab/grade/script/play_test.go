package script

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
)

// priority is a case of time priority.
const priority = `
points  2                # within the group
>  <create><account id="{b}" balance="100000"/><account id="{s}" balance="1"/>
   <symbol sym="{S}"><account id="{s}">100</account></symbol></create>
<  <created/><created/><created/>
>  <transactions id="{s}"><order sym="{S}" amount="-10" limit="10"/>
   <order sym="{S}" amount="-10" limit="10"/></transactions>
<  <opened id="$1"/><opened id="$2"/>
>  <transactions id="{b}"><order sym="{S}" amount="15" limit="10"/><query id="$1"/><query id="$2"/></transactions>
<  <any/><status><executed shares="10"/></status><status><open shares="5"/><executed shares="5"/></status>
`

func TestACaseThatHolds(t *testing.T) {
	p := twin(t, nil)
	out := p.Play(t.Context(), parse(t, "matching", priority))
	require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out)
}

func TestAFailureShowsTheConversationAndWhatWasExpected(t *testing.T) {
	p := twin(t, func(doc, reply string) string { // as if the later order had executed first
		return strings.ReplaceAll(reply, `<open shares="5"/>`, "")
	})
	out := p.Play(t.Context(), parse(t, "matching", priority))
	require.Equal(t, Fail, out.Status)
	require.Zero(t, out.Share)
	require.False(t, out.Trouble)
	require.Contains(t, out.Message, `Answer 3 of 3, to <query id="2"/> (the order to sell 10 at 10), must have in it `+
		`<open shares="5"/> and <executed shares="5"/>, and nothing else; it has <executed shares="5" price="10"`)
	require.Len(t, out.Conversation, 7)
	require.Regexp(t, `^> <create>.*</create>$`, out.Conversation[0])
	require.Regexp(t, `^< <results>.*</results>$`, out.Conversation[5])
	require.Equal(t, `! <results><any/><status><executed shares="10"/></status><status><open shares="5"/>`+
		`<executed shares="5"/></status></results>`, out.Conversation[6])
}

// The case has most kinds of lines of the language, and the model passes it.
func TestEveryLineOfTheLanguage(t *testing.T) {
	p := twin(t, nil)
	conversations := map[string]string{
		"frames": `
| strict
| writes 7
> <create><account id="{a}" balance="1000"/></create>
< <created id="*"/>
| together 3
> <transactions id="{a}"><order sym="{S}" amount="1" limit="1"/></transactions>
> <create><symbol sym="{S}"/></create>
> <transactions id="{a}"><order sym="{S}" amount="1" limit="1"/></transactions>
< <error/>
< <created/>
< <opened id="$old"/>
2>| \n \r\n00{frame <transactions id="{a}"><cancel id="$old"/></transactions>}{crlf <transactions id="{a}"/>}
2< <canceled id="$old"><canceled shares="1"/></canceled>
2<
2| shut
2<|
3>| {cut <create><account id="{c}" balance="1"/></create>}
3| shut
3<|
4>| \x31z\n
4<|
| sleep 1ms
> <transactions id="{c}"><query id="$old"/></transactions>
< <error/>
| close
> <transactions id="{a}">{repeat 1000 <query id="{k}000000000"/>}</transactions>
< {repeat 1000 <error/>}
> <transactions id="{a}"><query id="$old"/></transactions>
< *
`,
		"concurrency": `
> <create><account id="{a}" balance="100"/><symbol sym="{S}"/></create>
< <created/><created/>
| at-once 24
> <transactions id="{a}"><order sym="{S}" amount="1" limit="10"/></transactions>
<10 <opened id="$new"/>
<*  <error/>
> <transactions id="{a}"><query id="1"/></transactions>
< <any/>
`,
		"orders": `
> <create><account id="{a}" balance="100"/><symbol sym="{S}"/></create>
< <created/><created/>
> <transactions id="{a}"><order sym="{S}" amount="1" limit="10"/><order sym="{S}" amount="1" limit="10"/></transactions>
< <opened id="$1"/><opened id="$2"/>
| different $1 $2
| rising $1 $2
`,
		"durability": "| kill\n> <create/>\n<\n",
	}
	killed := 0
	p.Kill = func(context.Context) error { killed++; return nil }
	for group, conversation := range conversations {
		out := p.Play(t.Context(), parse(t, group, conversation))
		require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out, group)
	}
	require.Equal(t, 1, killed)
}

// Each conversation fails when it is played against the model. The map has the messages to expect.
func TestWhatDoesNotHold(t *testing.T) {
	for conversation, says := range map[string]string{
		"> <create/>\n< <created/>\n": `The reply must have 1 answer: <created>. It has no answers.`,
		"> <create><account id=\"{a}\" balance=\"1\"/></create>\n< <error/>\n": "The answer, to <account id=\"1567890001\" " +
			"balance=\"1\"/>, must be refused with <error>, but the server answered <created id=\"1567890001\"/>.",
		"> <transactions id=\"{a}\"><query id=\"1\"/></transactions>\n< <status/>\n": `The answer, to ` +
			`<query id="1"/>, must be <status>, but it was refused: <error id="1">bad account</error>.`,
		"> <create/>\n<|\n":                         "The server must close the connection, but left it open.",
		"> <create/>\n<\n| different 1 2 1\n":       "Each of these must be different, but 1 occurs twice: 1, 2, 1.",
		"> <create/>\n<\n| rising 1 3 2\n":          "Each of these must be a number greater than the one before: 1, 3, 2.",
		"| at-once 3\n> <create/>\n<2\n":            "Of the 3 replies, exactly 2 must be like <results/>: 3 are.",
		"| at-once 3\n> <create/>\n<0 <error/>\n":   "Of the 3 replies, this one is not allowed: <results/>.",
		"| at-once 3\n> <create/>\n<* <created/>\n": "The reply must have 1 answer: <created>. It has no answers.",
		"| at-once 2\n> <create><symbol sym=\"{S}\"/></create>\n<2 <created sym=\"$new\"/>\n": "Each reply " +
			"must have a different value here, but SDZNSUVB occurs twice.",
	} {
		t.Run(says, func(t *testing.T) {
			p := twin(t, nil)
			if strings.HasSuffix(says, "left it open.") {
				impatient(p)
			}
			out := p.Play(t.Context(), parse(t, "orders", conversation))
			require.Equal(t, Fail, out.Status, out)
			require.Equal(t, says, out.Message)
			require.False(t, out.Trouble)
		})
	}
}

// The test has the ways in which a server fails to answer. An outcome with Trouble makes the caller check
// whether the server still answers.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	for reply, want := range map[string]Outcome{
		"":              {Trouble: true, Message: "The server closed the connection without a reply."},
		hang:            {Trouble: true, Message: "The server sent no whole reply in time."},
		"<results></x>": {Message: "The server sent a reply that is not well-formed XML."},
	} {
		t.Run(want.Message, func(t *testing.T) {
			p := serve(t, func(string) string { return reply })
			if reply == hang {
				impatient(p)
			}
			c := parse(t, "orders", "> <create/>\n<\n")
			out := p.Play(t.Context(), c)
			require.Equal(t, Fail, out.Status)
			require.Equal(t, want.Message, out.Message)
			require.Equal(t, want.Trouble, out.Trouble)
			require.Equal(t, "! <results/>", out.Conversation[len(out.Conversation)-1])
		})
	}
}

// Before the server closes the connection it may send one reply of errors, but must not do anything.
func TestAConnectionThatHasToBeClosed(t *testing.T) {
	for reply, says := range map[string]string{
		"":                                   "",
		last + "<results><error/></results>": "",
		last + "<error>no</error>":           "",
		last + "<results><created/></results>": "The server must close the connection, and do nothing: it answered " +
			"<created/>.",
		"<results/>": "The server must close the connection, but left it open.",
	} {
		p := serve(t, func(string) string { return reply })
		if strings.HasSuffix(says, "left it open.") {
			impatient(p)
		}
		require.Equal(t, says, p.Play(t.Context(), parse(t, "limits", "> <x/>\n<|\n")).Message, reply)
	}
}

// writes is a connection that counts its writes.
type writes struct {
	*net.TCPConn
	n *atomic.Int64
}

func (w writes) Write(b []byte) (int, error) {
	w.n.Add(1)
	return w.TCPConn.Write(b)
}

// The test counts the writes in which frames are sent.
func TestFramesAreCutAndPutTogether(t *testing.T) {
	for conversation, want := range map[string]int64{
		"> <create/>\n<\n": 1,
		"| writes 5\n> <create/>\n<\n> <create/>\n<\n":                                   6,
		"| writes 4\n>| {frame <create/>}\n<\n":                                          4,
		"| together 3\n> <create/>\n> <create/>\n> <create/>\n<\n<\n<\n> <create/>\n<\n": 2,
	} {
		p := twin(t, nil)
		var n atomic.Int64
		c := p.Dialer.(*dialect.Connector)
		c.Open = func(ctx context.Context) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Addr)
			if err != nil {
				return nil, err
			}
			return writes{conn.(*net.TCPConn), &n}, nil
		}
		require.Equal(t, Pass, p.Play(t.Context(), parse(t, "frames", conversation)).Status, conversation)
		require.Equal(t, want, n.Load(), conversation)
	}
}

// The server fails only the cases that test the connection itself.
func TestAServerThatClosesAfterEachReply(t *testing.T) {
	p := twin(t, func(_, reply string) string { return last + reply })
	p.Habits.OneFrame = true
	p.Dialer.(*dialect.Connector).Options.Habits = p.Habits
	const conversation = `| writes 4
> <create><account id="{a}" balance="1000"/></create>
< <created/>
| together 2
> <create><symbol sym="{S}"/></create>
> <transactions id="{a}"><order sym="{S}" amount="1" limit="1"/></transactions>
< <created/>
< <opened id="$1"/>
>| {frame <transactions id="{a}"><cancel id="$1"/></transactions>}
< <canceled/>
> <transactions id="{a}"/>
<
| at-once 3
> <transactions id="{a}"/>
<3
`
	out := p.Play(t.Context(), parse(t, "frames", conversation))
	require.Equal(t, Outcome{Status: Pass, Share: 1, Tries: 1}, out)
	out = p.Play(t.Context(), parse(t, "frames", "| strict\n> <create/>\n<\n> <create/>\n<\n"))
	require.Equal(t, "The server closed the connection without a reply.", out.Message)
}

func TestACaseEndsWithItsTime(t *testing.T) {
	p := serve(t, func(string) string { return hang })
	c := parse(t, "orders", "time 0.05\n> <create/>\n<\n")
	out := p.Play(t.Context(), c)
	require.Equal(t, "The case took more than its 0.05 s.", out.Message)
	require.True(t, out.Trouble)

	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.Equal(t, "The run was stopped.", p.Play(stopped, c).Message)
}

func TestAServerThatCannotBeKilledIsNotAskedTo(t *testing.T) {
	p := twin(t, nil)
	c := parse(t, "durability", "> <create/>\n<\n| kill\n> <create/>\n<\n")
	out := p.Play(t.Context(), c)
	require.Equal(t, Skip, out.Status)
	require.Contains(t, out.Message, "--start")

	p.Kill = func(context.Context) error { return errors.New("the port stays taken") }
	out = p.Play(t.Context(), c)
	require.Equal(t, Fail, out.Status)
	require.Equal(t, "After it was killed, the server did not start again: the port stays taken.", out.Message)
}

// atOnce is a case of concurrency whose frames the servers below count.
const atOnce = "| at-once 4\n> <create/>\n<4\n"

// If a case fails with one connection after another, it is skipped: another case covers that.
func TestConcurrencyIsTriedOneAfterAnotherFirst(t *testing.T) {
	p := serve(t, func(string) string { return "<results><error>always</error></results>" })
	out := p.Play(t.Context(), parse(t, "concurrency", atOnce))
	require.Equal(t, Skip, out.Status)
	require.Regexp(t, "^Not tried at the same moment: it already fails with one connection after another, and other "+
		`groups count that\. [A-Z0-9].*[^.]\.$`, out.Message)
	require.Equal(t, Fail, p.Play(t.Context(), parse(t, "orders", atOnce)).Status, "only in its group")
}

// The server is right for the first frames, then wrong in the race, and afterwards right as many times as the key of
// the map.
func TestARaceIsPlayedThreeTimes(t *testing.T) {
	for right, says := range map[int]string{
		0: "Of the 4 replies, exactly 4 must be like <results/>: 0 are.",
		1: "flaky 1/3: it passed in 1 of 3 tries. In another try: Of the 4 replies, exactly 4 must be like " +
			"<results/>: 0 are.",
	} {
		t.Run(fmt.Sprint(right), func(t *testing.T) {
			var mu sync.Mutex
			frames := 0
			p := serve(t, func(string) string {
				mu.Lock()
				defer mu.Unlock()
				frames++
				if try := (frames - 1) / 4; try == 0 || try > 3-right {
					return "<results/>"
				}
				return "<results><error>too many</error></results>"
			})
			out := p.Play(t.Context(), parse(t, "concurrency", atOnce))
			require.Equal(t, Fail, out.Status)
			require.Equal(t, 3, out.Tries)
			require.Equal(t, says, out.Message)
			require.Equal(t, 16, frames)
			require.Contains(t, out.Conversation[0], "> [on 4 connections, at the same moment] <create/>")
			require.Contains(t, out.Conversation[1], "< [4 of 4, such as] <results><error>too many")
			require.Equal(t, "! 4 × <results/>", out.Conversation[2])
		})
	}
}

// The server fails when more than two connections send at once.
func TestPartsAreWorthTheirShare(t *testing.T) {
	p := serve(t, func(doc string) string {
		if strings.Contains(doc, "4") {
			return "<results><error>too many</error></results>"
		}
		return "<results/>"
	})
	out := p.Play(t.Context(), parse(t, "concurrency", "parts 1 2 4\n| at-once {part}\n> <many{part}/>\n<{part}\n"))
	require.Equal(t, Part, out.Status)
	require.InDelta(t, 2.0/3, out.Share, 1e-9)
	require.Equal(t, "With 4: Of the 4 replies, exactly 4 must be like <results/>: 0 are.", out.Message)
}

// The conversation omits frames that have neither an account nor a symbol in common with the failed one.
func TestTheConversationIsTheShortest(t *testing.T) {
	p := twin(t, nil)
	out := p.Play(t.Context(), parse(t, "orders", `
> <create><account id="{a}" balance="1"/></create>
< <created/>
> <create><account id="{b}" balance="1"/></create>
< <created/>
> <create><symbol sym="{S}"><account id="{b}">1</account></symbol></create>
< <created/>
> <transactions id="{a}"/>
<
> <transactions id="{c}"/>
<
> <create><symbol sym="{S}"/></create>
< <error/>
`))
	require.Equal(t, []string{
		`> <create><account id="1567890002" balance="1"/></create>`,
		`< <results><created id="1567890002"/></results>`,
		`> <create><symbol sym="SFZNSUVB"><account id="1567890002">1</account></symbol></create>`,
		`< <results><created sym="SFZNSUVB" id="1567890002"/></results>`,
		`> <create><symbol sym="SFZNSUVB"/></create>`,
		`< <results><created sym="SFZNSUVB"/></results>`,
		`! <results><error/></results>`,
	}, out.Conversation)
}

func TestAConversationIsBounded(t *testing.T) {
	p := serve(t, func(string) string { return "<results>" + strings.Repeat("<created/>", 500) + "</results>" })
	out := p.Play(t.Context(), parse(t, "orders", strings.Repeat("> {repeat 1000 <x/>}\n< *\n", 20)+"> <x/>\n<\n"))
	require.Equal(t, Fail, out.Status)
	require.Contains(t, out.Message, "It has 500 answers")
	require.LessOrEqual(t, len(strings.Join(out.Conversation, "\n")), conversationMax)
	require.Contains(t, out.Conversation[0], "lines before this")
	require.Equal(t, "! <results/>", out.Conversation[len(out.Conversation)-1])
}

// Ids fit in 31 bits, symbols have few letters, and both differ in each play and with each salt.
func TestNamesAreFresh(t *testing.T) {
	seen := map[string]bool{}
	for _, salt := range []string{"1732360000", "1732360001", "99999", "0"} {
		p := &Player{Salt: salt}
		for range 2000 {
			account, symbol := p.Account(), p.Symbol()
			if n, err := strconv.ParseInt(account, 10, 32); err != nil || n < 1e9 || len(symbol) > 8 || seen[account] ||
				seen[symbol] {
				t.Fatal(account, symbol)
			}
			seen[account], seen[symbol] = true, true
		}
	}
}
