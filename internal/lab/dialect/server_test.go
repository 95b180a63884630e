package dialect

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
)

// habitServer is a correct server, built on the model, with certain habits.
type habitServer struct {
	habits   Habits
	off      int                   // with WrongLength, the number added to each length
	patient  bool                  // waits where other servers close: for a CR LF, and after the first reply
	rejects  bool                  // with Whole, answers with an error instead of closing
	sometime func(doc string) bool // selects the documents whose replies have a wrong length; nil selects all
	tail     string                // sent after each reply

	falls bool // goes down at a frame that it would reject because of AccountAttribute

	mu       sync.Mutex // guards exchange, frames and down
	exchange *model.Exchange
	frames   int
	down     bool
}

// serve starts the server, and stops it when the test ends.
func (s *habitServer) serve(t *testing.T) (addr string) {
	s.exchange = model.New()
	return listen(t, s.connection)
}

// listen accepts connections and runs handle for each in a goroutine. When the test ends, it closes them all.
func listen(t *testing.T, handle func(net.Conn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().String()
}

func (s *habitServer) connection(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		for s.habits.CRLF && s.patient && err == nil && !strings.HasSuffix(line, "\r\n") {
			line, err = in.ReadString('\n')
		}
		n, bad := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || bad != nil || s.habits.CRLF && !strings.HasSuffix(line, "\r\n") {
			return
		}
		doc := make([]byte, n)
		if _, err := io.ReadFull(in, doc); err != nil {
			return
		}
		reply, ok := s.answer(string(doc))
		if !ok {
			return
		}
		io.WriteString(c, reply)
		if s.habits.ErrorCloses && strings.Contains(reply, "<error") {
			return
		}
		if s.habits.OneFrame {
			if s.patient {
				io.Copy(io.Discard, in)
			}
			return
		}
	}
}

// answer answers a document; ok is false if the server closes the connection instead.
func (s *habitServer) answer(doc string) (reply string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames++
	switch {
	case s.habits.Whole && strings.Contains(doc, "."):
		if !s.rejects {
			return "", false
		}
		reply = "<results><error>not a whole number</error></results>"
	case s.habits.AccountAttribute && strings.HasPrefix(doc, "<transactions id="):
		if s.falls {
			s.down = true
			return "", false
		}
		reply = "<results><error/></results>"
	default:
		reply = string(s.exchange.Do([]byte(doc), time.Now().Unix()))
	}
	if s.habits.ResultRoot {
		reply = strings.NewReplacer("<results", "<result", "</results", "</result").Replace(reply)
	}
	n := len(reply)
	if s.habits.WrongLength && (s.sometime == nil || s.sometime(doc)) {
		n += s.off
	}
	if !s.habits.Bare {
		reply = fmt.Sprintf("%d\n%s", n, reply)
	}
	return reply + s.tail, true
}

// asked returns how many frames the server got.
func (s *habitServer) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

// fresh returns a function that returns a new account id each time.
func fresh() func() string {
	n := 1000
	return func() string {
		n++
		return strconv.Itoa(n)
	}
}

// forms returns the form of each of remarks.
func forms(remarks []Remark) (all []Form) {
	for _, r := range remarks {
		all = append(all, r.Form)
	}
	return all
}

// noted collects remarks.
type noted struct {
	mu  sync.Mutex
	all []Remark // guarded by mu
}

func (n *noted) note(r Remark) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, r)
}

// dial connects to addr with options, and closes the connection when the test ends.
func dial(t *testing.T, addr string, o Options) *Conn {
	c, err := (&Connector{Addr: addr, Options: o}).Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
