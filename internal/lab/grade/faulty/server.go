package faulty

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a server.
const (
	frameBytesMax   = 4 << 20
	lengthDigitsMax = 19
	connectionsFew  = 24                    // connections accepted with the fault few-connections
	peekTime        = 30 * time.Millisecond // how long half-close-hangs-up waits for a half-close before it answers
	drainTime       = time.Second           // how long a connection closed after an error still reads
	keptBytesMax    = 1 << 30               // memory kept by the hostility eats-memory
	keptBytesEach   = 16 << 20
)

// server is a running server.
type server struct {
	o       *Options
	x       *exchange
	journal *journal // nil without a journal
	l       net.Listener
	done    chan struct{} // closed by close
	hung    atomic.Bool
	running sync.WaitGroup

	mu          sync.Mutex // guards the fields below
	connections map[net.Conn]bool
	kept        [][]byte
}

func newServer(l net.Listener, o Options) (*server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &server{o: &o, x: newExchange(&o), l: l, done: make(chan struct{}), connections: map[net.Conn]bool{}}
	if o.Journal == "" {
		return s, nil
	}
	var err error
	s.journal, err = s.restore(o.Journal)
	return s, err
}

// begin serves a new connection in a goroutine.
func (s *server) begin(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.has("few-connections") && len(s.connections) >= connectionsFew {
		_ = c.Close()
		return
	}
	s.connections[c] = true
	s.running.Go(func() {
		defer s.end(c)
		if be := hostile[s.o.Hostile]; be != nil {
			be(c)
			return
		}
		s.serve(c)
	})
}

func (s *server) end(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.connections, c)
}

// close closes all connections, and returns when all goroutines have ended.
func (s *server) close() {
	close(s.done)
	s.mu.Lock()
	for c := range s.connections {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.journal.close()
}

// serve answers the frames of a connection until a frame ends the connection.
func (s *server) serve(c net.Conn) {
	in := &input{c: c, r: bufio.NewReaderSize(c, frameBytesMax), o: s.o}
	for first := true; ; first = false {
		doc, err := in.frame()
		if first && err == io.EOF && s.o.has("silence-ends") {
			_ = s.l.Close()
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && s.o.has("cut-off-done") {
			s.cutOff(doc)
		}
		if reason := (*badLength)(nil); errors.As(err, &reason) {
			s.junk()
			if !s.o.has("strict-length") {
				s.reply(c, s.x.results(s.x.refuse("", "", err)))
				s.drain(c)
			}
		}
		if err != nil || s.o.has("half-close-hangs-up") && in.ended() {
			return
		}
		reply, err := s.answer(doc)
		if err != nil || s.reply(c, reply) != nil || s.o.Habits.OneFrame || s.hangsUpAfter(reply) {
			return
		}
	}
}

// hangsUpAfter reports whether the server closes the connection after a reply.
func (s *server) hangsUpAfter(reply string) bool {
	closes := s.o.Habits.ErrorCloses || s.o.has("error-hangs-up")
	return closes && strings.Contains(reply, "<error")
}

// answer executes a frame, and returns its reply. On an error the connection is closed.
func (s *server) answer(doc []byte) (string, error) {
	if _, err := parse(doc, false); err != nil {
		s.junk()
	}
	if s.hung.Load() {
		<-s.done
		return "", errHangUp
	}
	if s.o.Hostile == "eats-memory" {
		s.keep()
	}
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	now := time.Now().Unix()
	if err := s.journal.add(s.x, entry{now, doc}); err != nil {
		return "", err
	}
	return s.do(doc, now)
}

func (s *server) do(doc []byte, now int64) (string, error) {
	if s.o.Twin != nil {
		return string(s.o.Twin(doc, now)), nil
	}
	return s.x.do(doc, now)
}

// cutOff executes the part of a frame that arrived, for the fault cut-off-done.
func (s *server) cutOff(doc []byte) {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	if root, _ := parse(doc, false); root != nil {
		s.x.children(root) // root has only the complete children
	}
}

// junk is called for each malformed frame. The hostilities crashes and hangs act here.
func (s *server) junk() {
	switch s.o.Hostile {
	case "crashes":
		_ = s.l.Close()
	case "hangs":
		s.hung.Store(true)
	}
}

// keep allocates memory that is never freed.
func (s *server) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < keptBytesMax/keptBytesEach {
		s.kept = append(s.kept, slices.Repeat([]byte{1}, keptBytesEach))
	}
}

// reply sends a reply in the server's habits.
func (s *server) reply(c net.Conn, xml string) error {
	length := strconv.Itoa(len(xml)) + "\n"
	switch {
	case s.o.Habits.Bare:
		length = ""
	case s.o.Habits.WrongLength:
		length = strconv.Itoa(len(xml)+len(length)) + "\n" // counts the length line itself
	}
	_, err := io.WriteString(c, length+xml)
	return err
}

// drain shuts down the sending side, and briefly keeps reading what the client sends: closing a connection with unread
// bytes could discard its last reply.
func (s *server) drain(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, c, frameBytesMax)
}

// input reads the frames of a connection.
type input struct {
	c net.Conn
	r *bufio.Reader
	o *Options
}

// badLength is the error of bytes that do not begin with a length line.
type badLength struct{ line string }

func (b *badLength) Error() string {
	return fmt.Sprintf("a frame begins with its length, not with %q", b.line)
}

// frame returns the next frame's document. The error is io.EOF after the last frame. If it is io.ErrUnexpectedEOF,
// the result is the part of a frame that arrived.
func (in *input) frame() ([]byte, error) {
	if in.o.has("split-frames") {
		return in.oneRead()
	}
	n, err := in.length()
	if err != nil {
		return nil, err
	}
	doc := make([]byte, n)
	read, err := io.ReadFull(in.r, doc)
	if err == io.EOF && n > 0 {
		err = io.ErrUnexpectedEOF
	}
	if in.o.has("pipelined-lost") {
		_, _ = in.r.Discard(in.r.Buffered())
	}
	return doc[:read], err
}

// length reads a length line.
func (in *input) length() (int, error) {
	if in.o.Habits.CRLF {
		line, err := in.until("\r\n")
		if err != nil {
			return 0, err
		}
		return length(strings.TrimSpace(line))
	}
	line := ""
	for {
		b, err := in.r.ReadByte()
		if err != nil {
			return 0, err
		}
		space := strings.IndexByte(" \n", b) >= 0
		switch {
		case space && line == "" && !in.o.has("strict-length"):
		case b == '\n':
			if line == "\r" && !in.o.has("strict-length") {
				line = ""
				continue
			}
			if !in.o.has("strict-length") {
				line = strings.TrimSuffix(line, "\r")
			}
			return length(line)
		case (b < '0' || b > '9') && b != '\r', len(line) > 2*lengthDigitsMax:
			return 0, &badLength{line + string(rune(b))}
		default:
			line += string(rune(b))
		}
	}
}

// length parses the digits of a length line.
func length(line string) (int, error) {
	digits := strings.TrimLeft(line, "0")
	if digits == "" && line != "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || len(digits) > lengthDigitsMax || n > frameBytesMax {
		return 0, &badLength{line}
	}
	return int(n), nil
}

// until reads up to and including end, and returns the text before it.
func (in *input) until(end string) (string, error) {
	line := ""
	for !strings.HasSuffix(line, end) {
		b, err := in.r.ReadByte()
		if err != nil {
			return "", err
		}
		if line += string(rune(b)); len(line) > frameBytesMax/16 {
			return "", &badLength{line[:lengthDigitsMax]}
		}
	}
	return strings.TrimSuffix(line, end), nil
}

// oneRead returns the bytes of a single read as a frame; the bytes after the frame stay for the next.
func (in *input) oneRead() ([]byte, error) {
	if _, err := in.r.Peek(1); err != nil {
		return nil, err
	}
	came, _ := in.r.Peek(in.r.Buffered())
	line, rest, found := strings.Cut(string(came), "\n")
	n, err := length(strings.TrimSpace(line))
	if err != nil || !found {
		return nil, &badLength{line}
	}
	n = min(n, len(rest))
	_, _ = in.r.Discard(len(line) + 1 + n)
	return []byte(rest[:n]), nil
}

// ended reports whether the client shut down its sending side after the last frame.
func (in *input) ended() bool {
	_ = in.c.SetReadDeadline(time.Now().Add(peekTime))
	defer func() { _ = in.c.SetReadDeadline(time.Time{}) }()
	_, err := in.r.Peek(1)
	return errors.Is(err, io.EOF)
}
