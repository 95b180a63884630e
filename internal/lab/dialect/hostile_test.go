package dialect

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endless returns a server that writes begin, and then repeats again without end.
func endless(begin, again string) func(net.Conn) {
	again = strings.Repeat(again, 1+(1<<12)/len(again))
	return func(c net.Conn) {
		_, err := io.WriteString(c, begin)
		for err == nil {
			_, err = io.WriteString(c, again)
		}
	}
}

// says returns a server that writes s and then waits.
func says(s string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, s)
		io.Copy(io.Discard, c)
	}
}

// resets is a server that resets the connection once bytes arrive.
func resets(c net.Conn) {
	c.Read(make([]byte, 1))
	c.(*net.TCPConn).SetLinger(0)
}

// drips returns a server that writes begin, and then repeats s without end, a byte at a time.
func drips(begin, s string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, begin)
		for i := 0; err == nil; i = (i + 1) % len(s) {
			_, err = io.WriteString(c, s[i:i+1])
			time.Sleep(time.Millisecond)
		}
	}
}

const (
	bytesBound = "more than 8388608 bytes"
	tokenBound = "a tag or text of more than 65536 bytes"
)

func TestWhateverAServerSendsTheReaderEnds(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(net.Conn)
		kind   Kind
		says   string
	}{
		"nothing":                    {says(""), TimedOut, ""},
		"half a length":              {says("1"), TimedOut, ""},
		"half a reply":               {says("29\n<results>"), TimedOut, ""},
		"a length alone":             {says("29\n"), TimedOut, ""},
		"drips":                      {drips("<results>", "<created/>"), TimedOut, ""},
		"drips blanks":               {drips("", "\n"), TimedOut, ""},
		"drips lengths":              {drips("", "29\n\n"), TimedOut, ""},
		"closes":                     {func(net.Conn) {}, Closed, ""},
		"closes in a reply":          {func(c net.Conn) { io.WriteString(c, "29\n<results>") }, Closed, ""},
		"resets":                     {resets, Closed, ""},
		"elements without end":       {endless("<results>", "<created/>"), TooLarge, "more than 10000 elements"},
		"depth on and on":            {endless("", "<results>"), TooLarge, "more than 32 deep"},
		"33 deep":                    {says(strings.Repeat("<results>", 33)), TooLarge, "more than 32 deep"},
		"a text without end":         {endless("<results>", "text"), TooLarge, tokenBound},
		"a name without end":         {endless("<", "results"), TooLarge, tokenBound},
		"attributes without end":     {endless("<results ", `a="" `), TooLarge, tokenBound},
		"an attribute without end":   {endless(`<results a="`, `<b/>`), NotXML, ""},
		"a comment without end":      {endless("<results><!--", `<b/>`), TooLarge, tokenBound},
		"comments without end":       {endless("<results>", `<!-- b -->`), TooLarge, bytesBound},
		"instructions without end":   {endless("", `<?a b?>`), TooLarge, bytesBound},
		"a CDATA section without":    {endless("<results><![CDATA[", `<b/>`), TooLarge, tokenBound},
		"CDATA sections without end": {endless("<results>", `<![CDATA[b]]>`), TooLarge, bytesBound},
		"blanks without end":         {endless("", " "), TooLarge, "more than 8388608 blanks"},
		"blanks in it without end":   {endless("29\n", " "), TooLarge, tokenBound},
		"large values": {endless("<results>", `<a b="`+strings.Repeat("x", 1<<15)+`"/>`), TooLarge,
			"more than 1048576 bytes of values"},
		"many attributes":        {endless("<results>", `<a`+many(30)+`/>`), TooLarge, "or 30000 in all"},
		"33 attributes":          {says("<results><a" + many(33) + "/>"), TooLarge, "more than 32 attributes"},
		"digits without end":     {endless("", "1"), NotXML, ""},
		"garbage, on and on":     {endless("", "\xfe\x00\x80"), NotXML, ""},
		"garbage":                {says("HTTP/1.1 200 OK\r\n"), NotXML, ""},
		"a document type":        {says(`<!DOCTYPE results [<!ENTITY a "b">]>` + ok), NotXML, ""},
		"a document type behind": {says("90\n<!-- --><!DOCTYPE results>" + ok), NotXML, ""},
		"an entity":              {says("<results>&lol;</results>"), NotXML, ""},
		"another end":            {says("<results><a></results></a>"), NotXML, ""},
		"an end first":           {says("</results>"), NotXML, ""},
		"an attribute twice":     {says(`<results a="1" a="2"/>`), NotXML, ""},
		"text before":            {says(`29` + "\n" + `hello<results/>`), NotXML, ""},
		"text alone":             {says("29\nhello<b"), NotXML, ""},
		"not UTF-8":              {says("<results>\xff</results>"), NotXML, ""},
		"a byte 0":               {says("<results>\x00</results>"), NotXML, ""},
		"another encoding":       {says(`<?xml version="1.0" encoding="UTF-16"?><results/>`), NotXML, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, listen(t, c.handle), Options{})
			if conn.time = time.Minute; c.kind == TimedOut { // all other cases must end well within a minute
				conn.time = 300 * time.Millisecond
			}
			if name == "resets" {
				require.NoError(t, conn.Send(t.Context(), create))
			}
			_, err := conn.Receive(t.Context())
			b := kind(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			require.LessOrEqual(t, len(b.Got), ExcerptMax)
			if strings.Contains(name, "without end") {
				require.Greater(t, len(b.Got), ExcerptMax-10, "people see the beginning")
			}
			conn.Close()
			conn.Close()
		})
	}
}

// many returns n attributes in XML.
func many(n int) (s string) {
	for i := range n {
		s += " a" + strings.Repeat("b", i) + `=""`
	}
	return s
}

func TestAReplyOfManyElementsIsReadWhole(t *testing.T) {
	const children = ElementsMax - 1
	addr := listen(t, says("<results>"+strings.Repeat(`<created id="1"/>`, children)+"</results>"))
	r, err := dial(t, addr, Options{}).Receive(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Root.Children, children)
	require.Len(t, r.Raw, ExcerptMax)
}

func TestAServerThatReadsNothingStopsNobody(t *testing.T) {
	server, client := net.Pipe()
	defer server.Close()
	open := func(context.Context) (net.Conn, error) { return client, nil }
	c, err := (&Connector{Open: open, Options: Options{ReplyTime: 50 * time.Millisecond}}).Dial(t.Context())
	require.NoError(t, err)
	defer c.Close()
	kind(t, c.Send(t.Context(), "<create/>"), TimedOut)
	_, err = c.Receive(t.Context())
	kind(t, err, TimedOut)
}

// Replies that are not received wait at the server, not in the kit's memory.
func TestWhatIsReadAheadIsBounded(t *testing.T) {
	c := dial(t, listen(t, endless("", "<results/>")), Options{})
	require.Eventually(t, func() bool {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		return len(c.in.data) >= unreadMax
	}, time.Minute, time.Millisecond)
	for range 100_000 { // more bytes than are read ahead
		_, err := c.Receive(t.Context())
		require.NoError(t, err)
		c.in.mu.Lock()
		ahead := len(c.in.data)
		c.in.mu.Unlock()
		require.Less(t, ahead, unreadMax+readSize)
	}
}
