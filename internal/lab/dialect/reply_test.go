package dialect

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

const ok = "<results><created/></results>" // 29 bytes

// pipe returns a Conn to a server that writes these bytes regardless of its input, and then keeps the connection open
// until the client closes it. The client must read each byte.
func pipe(t *testing.T, sends string, o Options) *Conn {
	server, client := net.Pipe()
	open := func(context.Context) (net.Conn, error) { return client, nil }
	c, err := (&Connector{Open: open, Options: o}).Dial(t.Context())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.WriteString(server, sends)
		io.Copy(io.Discard, server)
	}()
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

func TestAReplyEndsWithItsRootWhateverItsLengthSays(t *testing.T) {
	for name, c := range map[string]struct {
		sends    string
		habits   Habits
		declared int64
		forms    []Form
	}{
		"right":                        {"29\n" + ok, Habits{}, 29, nil},
		"leading zeros and spaces":     {" 0029 \n" + ok, Habits{}, 29, []Form{Length}},
		"white space counted":          {"31\n" + ok + "\r\n", Habits{}, 31, nil},
		"a comment counted":            {"39\n<!-- 1 -->" + ok, Habits{}, 39, nil},
		"a comment behind, counted":    {"39\n" + ok + "<!--->-->\n", Habits{}, 39, nil},
		"an instruction behind":        {"36\n" + ok + "\n<?a?>\n", Habits{}, 36, nil},
		"a comment that goes on":       {"36\n" + ok + "<!-- 1 -->", Habits{}, 36, []Form{Length}},
		"too long, then no line":       {"40\n" + ok + ok, Habits{}, 40, []Form{Length}},
		"a byte-order mark counted":    {"32\n\ufeff" + ok, Habits{}, 32, nil},
		"a byte 0 counted":             {"30\n" + ok + "\x00", Habits{}, 30, []Form{Length}},
		"no line":                      {ok, Habits{}, NoLength, []Form{LengthLine}},
		"no line, a byte-order mark":   {"\ufeff" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"no line, a declaration":       {`<?xml version="1.0"?>` + "\n" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"no line, a blank one":         {"\n" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"no line, as known":            {ok, Habits{Bare: true}, NoLength, nil},
		"CR LF":                        {"29\r\n" + ok, Habits{}, 29, []Form{LengthLine}},
		"CR LF, as known":              {"29\r\n" + ok, Habits{CRLF: true}, 29, nil},
		"no line feed":                 {"29" + ok, Habits{}, 29, []Form{LengthLine}},
		"a word":                       {"length: 29\n" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"a header":                     {"Content-Length: 29\r\n\r\n" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"negative":                     {"-1\n" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"too large for a number":       {"99999999999999999999\n" + ok, Habits{}, NoLength, []Form{LengthLine}},
		"larger than any reply":        {"99999999999\n" + ok, Habits{}, 99999999999, []Form{Length}},
		"too short":                    {"28\n" + ok, Habits{}, 28, []Form{Length}},
		"zero":                         {"0\n" + ok, Habits{}, 0, []Form{Length}},
		"too long, then nothing":       {"30\n" + ok, Habits{}, 30, []Form{Length}},
		"too long, then the next":      {"40\n" + ok + "29\n" + ok, Habits{}, 40, []Form{Length}},
		"too long, as known":           {"40\n" + ok, Habits{WrongLength: true}, 40, nil},
		"a blank line before":          {"\n29\n" + ok, Habits{}, 29, []Form{Length}},
		"another root":                 {"13\n<result/>\n\n\n\n", Habits{}, 13, []Form{Root}},
		"another root, as known":       {"9\n<result/>", Habits{ResultRoot: true}, 9, nil},
		"another root than that known": {"9\n<answer/>", Habits{ResultRoot: true}, 9, []Form{Root}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen noted
			conn := pipe(t, c.sends, Options{Habits: c.habits, Remark: seen.note})
			r, err := conn.Receive(t.Context())
			require.NoError(t, err)
			require.Contains(t, []string{"results", "result", "answer"}, r.Root.Name)
			require.Equal(t, c.declared, r.Declared)
			require.Equal(t, c.forms, forms(seen.all))
		})
	}
}

func TestACommentBehindAReplyIsCountedWithItHoweverItArrives(t *testing.T) {
	server, client := net.Pipe()
	open := func(context.Context) (net.Conn, error) { return client, nil }
	var seen noted
	c, err := (&Connector{Open: open, Options: Options{Remark: seen.note}}).Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	go func() {
		for _, b := range []byte("46\n" + ok + "<!-- 1 --><?a b?>" + "29\n" + ok) {
			server.Write([]byte{b})
		}
	}()
	for _, declared := range []int64{46, 29} {
		r, err := c.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, declared, r.Declared)
	}
	require.Empty(t, seen.all)
}

func TestWhatStandsBehindAReplyIsTheNextOne(t *testing.T) {
	for name, sends := range map[string]string{
		"right":      "29\n" + ok + "10\n<results/>",
		"no lines":   ok + "<results/>",
		"too short":  "3\n" + ok + "10\n<results/>",
		"too long":   "44\n" + ok + "10\n<results/>",
		"line feeds": "29\n" + ok + "\n10\n<results/>\n",
		"bytes 0":    "29\n" + ok + "\x0010\n<results/>\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := pipe(t, sends, Options{})
			first, err := conn.Receive(t.Context())
			require.NoError(t, err)
			require.Len(t, first.Root.Children, 1)
			second, err := conn.Receive(t.Context())
			require.NoError(t, err)
			require.Empty(t, second.Root.Children)
		})
	}
}

func TestARemarkHasTheConversation(t *testing.T) {
	var seen noted
	conn := pipe(t, "45\n<results><error sym=\"SPY\"></error></results>"+"9\n<result/>", Options{Remark: seen.note})
	const doc = `<transactions id="1"><order sym="SPY" amount="1" limit="2"/></transactions>`
	require.NoError(t, conn.Send(t.Context(), doc))
	r, err := conn.Receive(t.Context())
	require.NoError(t, err)
	r.Judge()
	const got = "45\n<results><error sym=\"SPY\"></error></results>"
	require.Equal(t, []Remark{
		{Length, "the length says 45, the reply has 44 bytes", doc, got},
		{ErrorText, "an <error> has no text that says what is wrong", doc, got},
		{Echo, `<error> does not repeat amount="1" of its <order>`, doc, got},
	}, seen.all)

	seen.all = nil // after SendRaw it is unknown which document a reply answers
	require.NoError(t, conn.SendRaw(t.Context(), []byte("12")))
	require.NoError(t, conn.SendRaw(t.Context(), []byte("\n<create")))
	r, err = conn.Receive(t.Context())
	require.NoError(t, err)
	r.Judge()
	const detail = "the root of the reply is <result> instead of <results>"
	require.Equal(t, []Remark{{Root, detail, "12\n<create", "9\n<result/>"}}, seen.all)
}
