package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// LargeFrame is a frame whose reply would be many times larger than the frame. Kind describes it.
type LargeFrame struct{ Kind, XML string }

// LargeFrames returns frames of each kind, with attribute values of the given length and the given number
// of children. The account must exist.
func LargeFrames(account string, bytes, children int) []LargeFrame {
	long, quotes := strings.Repeat("A", bytes), strings.Repeat("'", bytes)
	many := func(child string) string { return strings.Repeat(child, children) }
	return []LargeFrame{
		{"a malformed symbol with malformed children",
			`<create><symbol sym="` + long + `!">` + many(`<account id="!">x</account>`) + `</symbol></create>`},
		{"a good name that is too long, with children",
			`<create><symbol sym="` + long + `">` + many(`<account id="1">1</account>`) + `</symbol></create>`},
		{"a name of escapes",
			`<create><symbol sym="` + quotes + `">` + many(`<account id="1">1</account>`) + `</symbol></create>`},
		{"references to characters",
			`<create><symbol sym="` + strings.Repeat("&#39;", bytes/5) + `">` + many(`<account id="1">1</account>`) +
				`</symbol></create>`},
		{"a malformed account of orders",
			`<transactions id="` + long + `!">` + many(`<order sym="!" amount="x" limit="y"/>`) + `</transactions>`},
		{"a ref of escapes",
			`<transactions id="` + account + `"><order sym="ABUSE" amount="1" limit="1" ref="` + quotes + `"/>` +
				many(`<query ref=""/>`) + `</transactions>`},
		{"invalid attributes",
			`<transactions id="` + account + `"><order sym="` + quotes + `" amount="` + quotes + `" limit="` + quotes +
				`"/></transactions>`},
		{"invalid queries, and a cancel with a long id",
			`<transactions id="` + account + `">` + many(`<query id="x"/>`) + `<cancel id="` + quotes + `"/></transactions>`},
	}
}

// HoldIdle opens n connections to addr. Each sends the bytes of send, then nothing more, and reads
// nothing.
func HoldIdle(ctx context.Context, addr, send string, n int) (conns []net.Conn, err error) {
	var d net.Dialer
	for range n {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return conns, fmt.Errorf("check: connection %d: %w", len(conns), err)
		}
		conns = append(conns, c)
		_, _ = c.Write([]byte(send)) // a server at its connection limit may have closed the connection
	}
	return conns, nil
}

// CloseAll closes the connections.
func CloseAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// AtOnce runs n calls of do concurrently and returns the first error.
func AtOnce(n int, do func(i int) error) error {
	var all sync.WaitGroup
	failed := make(chan error, n)
	for i := range n {
		all.Go(func() { failed <- do(i) })
	}
	all.Wait()
	for range n {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// garbage holds bytes for the XML port that are not frames: a TLS handshake, invalid lengths, a frame
// that never ends.
var garbage = []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "99999999999999999999\n", "-1\n", "12x\n",
	"\x00", "500000\n<create>"}

// smuggled holds requests for which two HTTP readers may disagree about where the request ends. The server must
// execute no part of them.
var smuggled = []string{
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 80\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding : chunked\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.2\r\nContent-Length: 80\r\n\r\n",
}

const smuggledBody = `<create><account id="666" balance="1"/></create>`

// Flood makes n connections, alternately to the XML and the HTTP port. Each ends at once, some after
// sending garbage.
func Flood(ctx context.Context, xml, http string, n int) error {
	return AtOnce(floodAtOnce, func(worker int) error {
		for i := worker; i < n; i += floodAtOnce {
			addr, send := xml, ""
			switch i % 4 {
			case 1:
				addr = http
			case 2:
				send = garbage[i/4%len(garbage)]
			case 3:
				addr, send = http, garbage[i/4%len(garbage)]
			}
			conns, err := HoldIdle(ctx, addr, send, 1)
			CloseAll(conns)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const floodAtOnce = 8

// Smuggle sends the ambiguous requests to the HTTP port at addr. It returns an error unless each request
// is refused and its connection closed.
func Smuggle(ctx context.Context, addr string) (err error) {
	for _, head := range smuggled {
		err = errors.Join(err, smuggle(ctx, addr, head+smuggledBody))
	}
	return err
}

func smuggle(ctx context.Context, addr, request string) error {
	conns, err := HoldIdle(ctx, addr, request, 1)
	defer func() { CloseAll(conns) }()
	if err != nil {
		return err
	}
	if err := conns[0].SetReadDeadline(time.Now().Add(ReplyTimeout)); err != nil {
		return err
	}
	reply, err := http.ReadResponse(bufio.NewReader(conns[0]), nil)
	if err != nil {
		return fmt.Errorf("a request with two lengths: %q: %w", request, err)
	}
	defer reply.Body.Close()
	return judgeSmuggled(reply, request)
}

func judgeSmuggled(reply *http.Response, request string) error {
	if reply.StatusCode < 400 || !reply.Close {
		return fmt.Errorf("a request with two lengths is answered with %s: %q", reply.Status, request)
	}
	return nil
}

// ForeignHosts sends the HTTP port at addr requests that a web page of another host could make a browser
// send after DNS rebinding. It returns an error if one of them takes effect. sent is the number of
// requests.
func ForeignHosts(ctx context.Context, addr, sym string) (sent int, err error) {
	requests := []string{"GET /admin/status", "PUT /loglevel", "POST /admin/halt?sym=" + sym, "GET /debug/pprof/heap",
		"POST /xml", "GET /"}
	for _, host := range []string{"evil.example", "evil.example:80",
		"127.0.0.1.evil.example", "localhost.evil.example", "evil"} {
		for _, request := range requests {
			method, path, _ := strings.Cut(request, " ")
			q, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(smuggledBody))
			if err != nil {
				return sent, fmt.Errorf("check: %w", err)
			}
			q.Host = host
			reply, err := http.DefaultClient.Do(q)
			if err != nil {
				return sent, fmt.Errorf("check: %s of host %s: %w", request, host, err)
			}
			reply.Body.Close()
			if reply.StatusCode != http.StatusForbidden && reply.StatusCode != http.StatusMisdirectedRequest {
				return sent, fmt.Errorf("%s of host %s is answered with %s", request, host, reply.Status)
			}
			sent++
		}
	}
	return sent, nil
}

// LargeReplies sends frames of each kind whose replies would be many times larger, atOnce of them at a time, for
// the given number of rounds. It returns the number of frames sent, and an error if a reply has more than replyMax
// bytes.
func LargeReplies(ctx context.Context, at Target, frames []LargeFrame, rounds, atOnce int, replyMax int64) (
	sent int, err error) {
	for range rounds {
		for _, f := range frames {
			sent += atOnce
			if err := AtOnce(atOnce, func(int) error { return largeReply(ctx, at, []byte(f.XML), replyMax) }); err != nil {
				return sent, fmt.Errorf("%s (%d bytes): %w", f.Kind, len(f.XML), err)
			}
		}
	}
	return sent, nil
}

func largeReply(ctx context.Context, at Target, xml []byte, most int64) error {
	l, err := DialLine(ctx, at)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Send(xml); err != nil {
		return err
	}
	bytes, err := l.SkipReply()
	if bytes > most {
		return fmt.Errorf("the reply has %d bytes; the maximum is %d", bytes, most)
	}
	return err
}

// WithholdBodies sends n requests to the HTTP port at addr without their bodies. It returns their
// connections once the exchange has reacted to each one, by asking for the body or refusing the request.
func WithholdBodies(ctx context.Context, addr, token string, n int) (conns []net.Conn, err error) {
	head := "POST /xml HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 100\r\nExpect: 100-continue\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	conns, err = HoldIdle(ctx, addr, head+"\r\n", n)
	for _, c := range conns {
		err = errors.Join(err, c.SetReadDeadline(time.Now().Add(ReplyTimeout)))
		if _, readErr := c.Read(make([]byte, 1)); errors.Is(readErr, os.ErrDeadlineExceeded) { // or it is closed
			return conns, errors.New("a request without its body has no answer, and its connection stays")
		}
	}
	return conns, err
}

// Probe calls each probe repeatedly until over ends, at least once, and stops a probe at its first error.
// It returns the times of each probe in nanoseconds, and all errors.
func Probe(over context.Context, probes map[string]func() error) (
	times map[string]*hdrhistogram.Histogram, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards the results
	times = map[string]*hdrhistogram.Histogram{}
	for name, once := range probes {
		all.Go(func() {
			took := NewPace()
			var failed error
			for isOver := false; !isOver && failed == nil; isOver = over.Err() != nil {
				begun := time.Now()
				failed = once()
				_ = took.RecordValue(int64(time.Since(begun)))
			}
			mu.Lock()
			defer mu.Unlock()
			times[name], err = took, errors.Join(err, failed)
		})
	}
	all.Wait()
	return times, err
}
