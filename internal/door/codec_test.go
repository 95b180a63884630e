package door

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// lines is a protocol of lines, each one command with its reply: token T, order ACCOUNT, and query ACCOUNT ID. Its
// errors are the names of reject reasons; XML has texts instead.
type lines struct{}

func (lines) NewFrames(r io.Reader, max int, _ func([]byte, int) error) *lineFrames {
	return &lineFrames{bufio.NewReader(r), max}
}

func (lines) NewMessage() *lineMessage { return new(lineMessage) }
func (lines) Memory([]byte) int        { return 1000 }
func (lines) ExecutionBytesMin() int   { return len(" fill") }

func (lines) Account([]byte) (account exchange.AccountID, ok bool) { return "", false }

func (lines) Token(frame []byte) (token string, ok bool) {
	return strings.CutPrefix(string(frame), "token ")
}

func (lines) AppendAuthorized(dst []byte) []byte { return append(dst, "welcome"...) }
func (lines) Unauthorized() string               { return "unauthenticated" }
func (lines) NeedsTLS() string                   { return "TLS is missing" }
func (lines) Brackets() (begin, end string)      { return "", "" }
func (lines) AppendError(dst []byte, text string) []byte {
	return append(append(dst, "error "...), text...)
}
func (lines) EndReply(dst []byte, _ int) []byte { return append(dst, '\n') }

type lineFrames struct {
	*bufio.Reader
	max int
}

func (f *lineFrames) Next() ([]byte, error) {
	line, err := f.ReadString('\n')
	switch {
	case len(line) > f.max:
		return nil, errLong
	case errors.Is(err, io.EOF) && line != "":
		return nil, io.ErrUnexpectedEOF
	}
	return []byte(strings.TrimSuffix(line, "\n")), err
}

func (f *lineFrames) Buffered() bool {
	waiting, _ := f.Peek(f.Reader.Buffered())
	return strings.Contains(string(waiting), "\n")
}

func (f *lineFrames) InFrame() bool  { return f.Reader.Buffered() > 0 }
func (f *lineFrames) SetMax(max int) { f.max = max }
func (f *lineFrames) Release() bool  { return false }

type lineError string

const errLong = lineError("too long")

func (e lineError) Error() string { return string(e) }
func (lineError) OverLimit() bool { return true }

type lineMessage struct {
	command *exchange.Command // nil after Judge refused it
	reason  exchange.RejectReason
	fault   string
}

func (m *lineMessage) Decode(frame []byte, _ *exchange.Names) {
	*m = lineMessage{command: new(exchange.Command)}
	var kind string
	fmt.Sscan(string(frame), &kind, &m.command.Account, &m.command.Order)
	switch kind {
	case "order":
		m.command.Kind = exchange.PlaceOrder
	case "query":
		m.command.Kind = exchange.QueryOrder
	case "fills":
		m.command.Kind = exchange.ListFills
	default:
		m.command, m.fault = nil, "unknown method "+kind
	}
}

func (m *lineMessage) CancelOnDisconnect(bool)           {}
func (m *lineMessage) Connection() (time.Duration, bool) { return 0, false }

func (m *lineMessage) Judge(judge func(*exchange.Command) exchange.Refusal) (denied int) {
	if m.command == nil {
		return 0
	}
	if m.reason = judge(m.command).Reason; m.reason != exchange.OK {
		m.command, denied = nil, 1
	}
	return denied
}

func (m *lineMessage) JudgeMalformed(func(*exchange.Command) exchange.Refusal) {}

func (m *lineMessage) Refused() int { return 1 - m.Places() }

func (m *lineMessage) Places() int {
	if m.fault != "" {
		return 0
	}
	return 1
}

func (m *lineMessage) AppendReply(dst []byte, _ []exchange.Result) []byte {
	return lines{}.AppendError(dst, m.fault)
}

func (m *lineMessage) Command(int) int {
	if m.command == nil {
		return -1
	}
	return 0
}

func (m *lineMessage) AppendAnswer(dst []byte, _ int, results []exchange.Result) []byte {
	if m.command == nil {
		return append(dst, m.reason.String()...)
	}
	dst = append(dst, results[0].Reason.String()...)
	return append(dst, strings.Repeat(" fill", entries(&results[0]))...)
}

func (m *lineMessage) AppendRefusal(dst []byte, _ int, refusal exchange.Refusal) []byte {
	return append(dst, refusal.Reason.String()...)
}

// Clients of the protocol lines are subject to the same rates, tokens and limits as those of XML.
func TestASecondProtocolHasTheSamePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, q, x, k := newPipes(), newPipes(), newFake(), newKeyring(t)
		token, _ := k.add("account:1", time.Time{})
		x.executions, x.past = 10, 7
		s := start(t, p, x, Options{Tokens: k.tokens, ReplyBytesMax: 100, FrameBytesMax: 1000})
		s.SetRates(0, 3)
		go func() { _ = s.Serve(q, Adapt(lines{})) }()
		say := func(c *client, line string) string {
			c.send(line + "\n")
			reply, err := c.in.ReadString('\n')
			require.NoError(t, err)
			return unnumbered(strings.TrimSuffix(reply, "\n"))
		}

		xml := connect(t, p)
		xml.send(authFrame(token), frame(`<transactions id="1">`+anOrder+anOrder+`</transactions>`))
		require.Equal(t, taken, xml.reply())
		require.Equal(t, "<results>"+anOpened+anOpened+"</results>", xml.reply())

		c := connect(t, q)
		require.Equal(t, "welcome", say(c, "token "+token))
		require.Equal(t, "ok", say(c, "order 1"))
		require.Equal(t, "rate_exceeded", say(c, "order 1"), "the account's rate is that of all protocols")
		require.Equal(t, "not_allowed", say(c, "order 2"))
		require.Equal(t, "error unknown method what", say(c, "what"))
		require.Equal(t, "ok"+strings.Repeat(" fill", 10), say(c, "query 1 9"))
		require.Equal(t, "ok"+strings.Repeat(" fill", 10), say(c, "query 1 5"), "of the history")
		x.set(func() { x.executions = 100 })
		require.Equal(t, "reply_too_long", say(c, "query 1 9"))
		c.send("query 1 5\norder 1\nwhat\n") // the first line waits for the history, the others for the first
		for _, want := range []string{"reply_too_long", "rate_exceeded", "error unknown method what"} {
			reply, err := c.in.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want+"\n", reply)
		}
		c.send(strings.Repeat("x", 1001) + "\n")
		rest, err := io.ReadAll(c.in)
		require.NoError(t, err)
		require.Regexp(t, `^error too long \(connection \d+\)\n$`, string(rest))

		stranger := connect(t, q)
		require.Regexp(t, `^error unauthenticated \(connection \d+\)$`, say(stranger, "query 1 1"))
	})
}
