// Package streamtest records what doors send to readers of market data while a market goes through a fixed story, on
// the clock of a synctest bubble. The transcripts are golden files: they change only if a door's messages change.
package streamtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/trailtest"
	"outcry/internal/view/market"
)

var update = flag.Bool("update-streams", false, "rewrite the golden transcripts of streams")

// Door is a door under test.
type Door struct {
	Handler http.Handler
	Publish func(now time.Time) // the feed's option Publish; may be nil
	Attach  func(*market.Feed)
	Close   func()

	// Open returns the path of a reader's request and the messages that the client sends over it. No messages means that
	// the answer is a stream of server-sent events.
	Open func(channels string) (path string, messages []string)
	// Readers has an entry for each reader: the names of its channels, joined by commas.
	Readers []string
	// Slow is the same as Readers, for readers that stop reading for a while.
	Slow []string
	// Asks has the paths of requests that are answered at once. They are sent while the symbol is halted.
	Asks []string
}

// Play lets a door serve the story, and compares the messages that it sends with a golden file.
func Play(t *testing.T, name string, newDoor func() *Door) {
	t.Helper()
	var transcript string
	synctest.Test(t, func(t *testing.T) { transcript = play(t, newDoor()) })
	Compare(t, name, transcript)
}

// Compare compares what a door sends with a golden file.
func Compare(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run this test with -update-streams if the door's messages should change")
}

func play(t *testing.T, d *Door) string {
	story := newStory()
	feed := market.NewFeed(market.Options{Records: trailtest.Follow(story, 0, story.notify), Publish: d.Publish,
		Log: slog.New(slog.DiscardHandler)}, &market.Snapshot{})
	d.Attach(feed)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { feed.Run(ctx) })
	server := serve(d.Handler)
	var readers []*reader
	var answers strings.Builder
	join := func(when string, channels []string, slow bool) {
		for _, c := range channels {
			r := &reader{title: c + ", " + when, step: "joined", slow: slow, gate: make(chan struct{}, 1)}
			readers = append(readers, r)
			running.Go(func() { r.run(t, server, d, c) })
			synctest.Wait()
		}
	}
	for _, s := range story.steps() {
		time.Sleep(s.after)
		synctest.Wait()
		for _, r := range readers {
			r.collect(s.name)
		}
		switch s.name {
		case "early readers":
			join("early", d.Readers, false)
			join("slow", d.Slow, true)
		case "late readers":
			join("late", d.Readers, false)
		case "slow readers stop reading":
			for _, r := range readers {
				r.setStopped(true)
			}
		case "slow readers read again":
			for _, r := range readers {
				r.setStopped(false)
			}
		case "and its end":
			for _, path := range d.Asks {
				fmt.Fprintf(&answers, "# %s\n%s\n", path, ask(d.Handler, path))
			}
		}
		story.add(s.records...)
		synctest.Wait()
	}
	cancel() // the feed ends, and with it the readers
	time.Sleep(time.Minute)
	for _, r := range readers {
		r.collect("end")
		_ = r.conn.Close()
	}
	d.Close()
	server.Close()
	running.Wait()
	var b strings.Builder
	for _, r := range readers {
		fmt.Fprintf(&b, "# %s\n%s\n", r.title, r.transcript.String())
	}
	return b.String() + answers.String()
}

// ask returns the status and the body of a door's answer to a request.
func ask(h http.Handler, path string) string {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return fmt.Sprintf("%d %s", answer.Code, answer.Body)
}

// reader is a client that reads messages.
type reader struct {
	title string
	conn  net.Conn
	slow  bool
	gate  chan struct{} // receives a value when a stopped reader reads again

	mu         sync.Mutex // guards the fields below
	stopped    bool
	step       string
	new        []string // messages since the last step
	transcript strings.Builder
}

func (r *reader) setStopped(stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.slow {
		return
	}
	if r.stopped && !stopped {
		r.gate <- struct{}{}
	}
	r.stopped = stopped
}

// collect writes the messages since the last step to the transcript. It shortens long messages and long lists of
// them.
func (r *reader) collect(next string) {
	const listedMax, bytesMax = 3, 400
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.new) > 0 {
		fmt.Fprintf(&r.transcript, "- %s\n", r.step)
	}
	for i, m := range r.new {
		if i == listedMax && len(r.new) > 2*listedMax {
			rest := strings.Join(r.new[i:len(r.new)-1], "\n")
			fmt.Fprintf(&r.transcript, "... %d messages, SHA-256 %x\n", len(r.new)-1-i, sha256.Sum256([]byte(rest)))
		}
		if i >= listedMax && i < len(r.new)-1 && len(r.new) > 2*listedMax {
			continue
		}
		if len(m) > bytesMax {
			m = fmt.Sprintf("%s ... %d bytes, SHA-256 %x", m[:bytesMax], len(m), sha256.Sum256([]byte(m)))
		}
		r.transcript.WriteString(m + "\n")
	}
	r.step, r.new = next, nil
}

// run opens a connection and reads messages until it ends.
func (r *reader) run(t *testing.T, server *pipeServer, d *Door, channels string) {
	r.conn = server.dial()
	path, messages := d.Open(channels)
	in := bufio.NewReader(r.conn)
	request, err := http.NewRequest(http.MethodGet, "http://exchange"+path, nil)
	if err != nil {
		t.Errorf("request: %v", err)
		return
	}
	next := nextEvent
	if len(messages) > 0 {
		next = nextMessage
		request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key": {base64.StdEncoding.EncodeToString(make([]byte, 16))}}
	}
	if err := request.Write(r.conn); err != nil {
		t.Errorf("write the request: %v", err)
		return
	}
	response, err := http.ReadResponse(in, request)
	if err != nil || response.StatusCode >= 400 {
		t.Errorf("answer to %s: %v %v", path, response, err)
		return
	}
	if len(messages) == 0 {
		in = bufio.NewReader(response.Body)
	}
	for _, m := range messages {
		if _, err := r.conn.Write(maskedText(m)); err != nil {
			t.Errorf("send: %v", err)
			return
		}
	}
	for {
		message, err := next(in)
		r.mu.Lock()
		if message != "" {
			r.new = append(r.new, message)
		}
		stopped := r.stopped
		r.mu.Unlock()
		if err != nil {
			return
		}
		if stopped {
			<-r.gate
		}
	}
}

// nextEvent returns the next server-sent event on one line.
func nextEvent(in *bufio.Reader) (string, error) {
	var lines []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			return strings.Join(lines, " "), nil
		}
		lines = append(lines, line)
	}
}

// nextMessage returns the payload of the next WebSocket frame; for a close frame, its code and reason. Servers do
// not mask or split their frames.
func nextMessage(in *bufio.Reader) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return "", err
		}
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return "", err
		}
		n = binary.BigEndian.Uint64(b[:])
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(in, payload); err != nil {
		return "", err
	}
	switch head[0] & 0xf {
	case 8:
		return fmt.Sprintf("close %d %s", binary.BigEndian.Uint16(payload), payload[2:]), io.EOF
	case 9:
		return "", nil // a ping, which a client this short-lived need not answer
	}
	return string(payload), nil
}

// maskedText returns a text message as a client sends it, with a mask of zeros.
func maskedText(text string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text)))
	return append(append(b, 0, 0, 0, 0), text...)
}

// pipeServer serves HTTP over connections in memory.
type pipeServer struct {
	http.Server
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func serve(h http.Handler) *pipeServer {
	s := &pipeServer{conns: make(chan net.Conn), end: make(chan struct{})}
	s.Handler = h
	go func() { _ = s.Server.Serve((*pipeListener)(s)) }() // ends with Close
	return s
}

// dial returns the client's end of a new connection.
func (s *pipeServer) dial() net.Conn {
	client, server := net.Pipe()
	s.conns <- server
	return client
}

// pipeListener is the server's side of dial.
type pipeListener pipeServer

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.end) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
