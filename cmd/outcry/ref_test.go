package main

import (
	"flag"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/testing/exchangetest"
)

// TestEveryAttributeOfAnOrderHasAFlag, except the attributes that are arguments.
func TestEveryAttributeOfAnOrderHasAFlag(t *testing.T) {
	flags := map[string]struct { // add a line for each new flag
		line, field string
		want        any
	}{
		"Type": {"--market", "Market", true}, "TIF": {"--tif=IOC", "TIF", api.IOC}, "Post": {"--post", "Post", true},
		"STP": {"--stp=oldest", "STP", api.CancelOldest}, "COD": {"--cod", "COD", api.Cancels},
		"Report": {"--full", "Report", true}, "Ref": {"--ref=r", "Ref", "r"},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[wire.Order]()) {
		switch field.Name {
		case "Sym", "Amount", "Limit":
			continue
		}
		given, there := flags[field.Name]
		require.True(t, there, "which flag is that of %s?", field.Name)
		f := flag.NewFlagSet("buy", flag.ContinueOnError)
		var instructions api.Instructions
		declareInstructions(f, &instructions)
		o := refOfNew.declare(f)
		require.NoError(t, f.Parse([]string{given.line}))
		command := o.apply(api.Command{Kind: api.KindBuy}.With(instructions))
		require.Equal(t, given.want, reflect.ValueOf(command).FieldByName(given.field).Interface())
	}
}

// relay forwards connections to an exchange. While losing is positive, each frame is forwarded, losing is
// decremented, and the connection is closed instead of returning the reply.
type relay struct {
	net.Listener
	to     string
	losing atomic.Int64
}

// startRelay starts a relay that runs until the end of the test.
func startRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{Listener: l, to: to}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.serve(conn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return r
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	exchange, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer exchange.Close()
	frames, replies := wire.NewFrameReader(conn, 1<<20), wire.NewFrameReader(exchange, 1<<20)
	for {
		frame, err := frames.Next()
		if err != nil {
			return
		}
		if _, err := exchange.Write(wire.AppendFrame(nil, frame)); err != nil {
			return
		}
		reply, err := replies.Next()
		if err != nil || r.losing.Add(-1) >= 0 {
			return
		}
		if _, err := conn.Write(wire.AppendFrame(nil, reply)); err != nil {
			return
		}
	}
}

// TestAScriptRepeatsALineUntilItHasAnAnswer: replies are lost, but no command is executed twice.
func TestAScriptRepeatsALineUntilItHasAnAnswer(t *testing.T) {
	p := exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t))
	r := startRelay(t, p.Addr)
	t.Setenv("OUTCRY_ADDR", r.Addr().String())
	for _, step := range []struct {
		losing int64
		args   string
		want   string
		stderr string
		status int
	}{
		{2, "account 1 1000", "account 1 opened\n", "sent_again=1", cli.ExitOK},
		{1, "place SPY 1 500", "500 SPY placed with account 1\n", "sent_again=1", cli.ExitOK},
		{1, "sell 1 SPY 300 5", "order 1 sells 300 SPY at 5\n", "sent_again=1", cli.ExitOK},
		{1000, "--timeout=300ms sell --ref mine 1 SPY 200 6", "", "whether it was done is unknown: ", cli.ExitNoAnswer},
		{0, "sell --ref mine 1 SPY 200 6", "order 2 sells 200 SPY at 6\n", "", cli.ExitOK},
		{0, "sell --ref mine 1 SPY 100 6", "error: account 1 has used ref mine before, for something else\n", "",
			cli.ExitError},
		{0, "query --ref mine 1", "order 2\n  open      200\n", "", cli.ExitOK},
		{0, "query --ref other 1", "error: account 1 has no order with ref other\n", "", cli.ExitError},
		{1, "cancel --ref mine 1", "", "whether it was done is unknown: ", cli.ExitNoAnswer},
		{0, "cancel --ref mine 1", "error: order 2 has nothing open: it was canceled before\n", "", cli.ExitError},
		{1, "query 1 1", "order 1\n  open      300\n", "sent_again=1", cli.ExitOK},
		{0, "buy --ref a*b 1 SPY 1 1", "", `ref "a*b" must have 1 to 64 characters of`, cli.ExitError},
		{0, "query 1 3", "error: there is no order 3\n", "", cli.ExitError},
	} {
		r.losing.Store(step.losing)
		got, stderr, status := outcry("", strings.Fields(step.args)...)
		require.Equal(t, step.want, got, "%s: %s", step.args, stderr)
		require.Equal(t, step.status, status, step.args)
		require.Contains(t, stderr, step.stderr, step.args)
		if step.losing == 1000 {
			require.Contains(t, stderr, "; retry with --ref mine, now or later: the command is executed at most once\n")
		}
	}
}

// TestARefusalAfterALostAnswerIsNoAnswer: the exchange refuses a retry of a command whose first try it may have
// executed.
func TestARefusalAfterALostAnswerIsNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			frames := wire.NewFrameReader(conn, 1<<20)
			if _, err := frames.Next(); err == nil && n > 0 {
				_, _ = conn.Write(wire.AppendFrame(nil,
					[]byte(`<results><error sym="SPY" amount="1" limit="1" ref="r">not now</error></results>`)))
				_, _ = io.Copy(io.Discard, conn)
			}
			conn.Close()
		}
	}()
	t.Setenv("OUTCRY_ADDR", l.Addr().String())
	got, stderr, status := outcry("", "buy", "--ref", "r", "1", "SPY", "1", "1")
	require.Equal(t, cli.ExitNoAnswer, status)
	require.Empty(t, got)
	require.Contains(t, stderr,
		"refused when it was sent again; whether the first attempt was executed is unknown: not now; "+
			"retry with --ref r, now or later: the command is executed at most once")
	got, _, status = outcry("", "buy", "--ref", "r", "1", "SPY", "1", "1")
	require.Equal(t, cli.ExitError, status)
	require.Equal(t, "error: not now\n", got, "it was sent once")
}

// TestScriptsAreToldWhatA1After3IsWorth: each text that recommends a retry also explains an exit status of 1 after one
// of 3: the first try may still have been executed.
func TestScriptsAreToldWhatA1After3IsWorth(t *testing.T) {
	usage, _, status := outcry("", "help")
	require.Equal(t, cli.ExitOK, status)
	texts := map[string]string{"usage": usage}
	for _, page := range []string{"docs/GUIDE.md", "docs/reference/MESSAGES.md"} {
		text, err := os.ReadFile("../../" + page)
		require.NoError(t, err)
		texts[page] = string(text)
	}
	for name, text := range texts {
		require.Regexp(t,
			`If a retry then exits with 1, the first\s+try may still have placed the order[^.]*:\s+check\s+with\s+`+
				`.?outcry query --ref`, text, name)
	}
}

// TestErrorsDoNotRepeatWhatMayBeASecret: errors do not quote a secret given in the wrong place.
func TestErrorsDoNotRepeatWhatMayBeASecret(t *testing.T) {
	for _, secret := range []string{"outc_0123456789abcdef_0123456789abcdef", "postgres://me:hunter2@db/outcry",
		"hunter2", "-hunter2"} {
		for _, line := range []string{"SECRET", "token SECRET", "doctor SECRET", "demo SECRET", "status SECRET",
			"halt A -SECRET",
			"backup a SECRET", "restore a SECRET", "verify a SECRET", "token list SECRET", "query 1 2 SECRET", "buy SECRET"} {
			var args []string
			for _, arg := range strings.Fields(line) {
				args = append(args, strings.ReplaceAll(arg, "SECRET", secret))
			}
			_, stderr, status := outcry("", args...)
			require.Equal(t, cli.ExitUsage, status, line)
			if strings.HasPrefix(secret, "-") {
				continue // name of a flag
			}
			require.NotContains(t, stderr, secret, line)
			require.NotContains(t, stderr, "hunter2", line)
		}
	}
}

// TestATokenStaysOnThisMachine: without TLS, a token is not sent to another machine, and no connection is
// made.
func TestATokenStaysOnThisMachine(t *testing.T) {
	t.Setenv("OUTCRY_TOKEN", "outc_"+strings.Repeat("0", 16)+"_"+strings.Repeat("0", 64))
	_, stderr, status := outcry("", "--http=192.0.2.1:1", "status")
	require.Equal(t, cli.ExitError, status)
	require.Equal(t,
		"outcry: 192.0.2.1:1: the token was not sent: the connection to another machine is not encrypted\n", stderr)
}
