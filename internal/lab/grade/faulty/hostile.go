package faulty

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Hostilities are the hostile behaviors of a server; Options.Hostile names one.
var Hostilities = []string{
	"garbage",     // answers with bytes that are no reply
	"endless",     // answers with a reply that does not end
	"dripping",    // answers a byte at a time
	"silent",      // never answers
	"closes",      // closes a connection when bytes arrive
	"resets",      // resets a connection when bytes arrive
	"deep",        // answers with deeply nested elements
	"entities",    // answers with a document type whose entities would expand
	"markup",      // answers with text that HTML pages, tables and terminals would interpret
	"crashes",     // is correct, and exits at a malformed frame
	"hangs",       // is correct, and answers nothing after a malformed frame
	"eats-memory", // is correct, and allocates memory with each frame, up to 1 GiB
}

// hostile maps a hostility to the function that handles a connection; nil if type server implements the hostility.
var hostile = map[string]func(net.Conn){
	"garbage":     func(c net.Conn) { echo(c, garbage) },
	"endless":     endless,
	"dripping":    dripping,
	"silent":      func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	"closes":      func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) },
	"resets":      resets,
	"deep":        func(c net.Conn) { echo(c, framed("<results>"+strings.Repeat("<a>", deepness))) },
	"entities":    func(c net.Conn) { echo(c, framed(entities)) },
	"markup":      func(c net.Conn) { echo(c, framed("<results>"+strings.Repeat(markup, markupTimes)+"</results>")) },
	"crashes":     nil,
	"hangs":       nil,
	"eats-memory": nil,
}

// What the hostile servers send, and how much.
const (
	garbage = "\x00\xff\x1b[2J</pre><script>alert(1)</script>=1+1,\"'\r\n-1\n"
	markup  = `<error a="&lt;script>` +
		`alert(2)&lt;/script>">]]&gt;&lt;/pre>&lt;script>alert(1)&lt;/script>=1+1,&quot;'</error>`
	markupTimes = 3
	entities    = `<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">` +
		`<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><results>&b;</results>`
	deepness   = 100_000
	endlessMax = 1 << 30 // bytes sent on a connection
	dripTime   = 100 * time.Millisecond
)

func framed(xml string) string { return fmt.Sprintf("%d\n%s", len(xml), xml) }

// echo sends what whenever bytes arrive.
func echo(c net.Conn, what string) {
	in := make([]byte, frameBytesMax)
	for {
		if _, err := c.Read(in); err != nil {
			return
		}
		if _, err := io.WriteString(c, what); err != nil {
			return
		}
	}
}

func endless(c net.Conn) {
	out := bufio.NewWriter(c)
	_, err := fmt.Fprintf(out, "%d\n<results>", endlessMax)
	for sent := 0; err == nil && sent < endlessMax; {
		var n int
		n, err = out.WriteString(`<created id="1"/>`)
		sent += n
	}
}

func dripping(c net.Conn) {
	reply := framed("<results>" + strings.Repeat(`<created id="1"/>`, deepness))
	for i := 0; ; i++ {
		if _, err := io.WriteString(c, reply[i%len(reply):i%len(reply)+1]); err != nil {
			return
		}
		time.Sleep(dripTime)
	}
}

func resets(c net.Conn) {
	_, _ = c.Read(make([]byte, 1))
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}
