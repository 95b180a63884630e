package rpctest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the transcripts of JSON over WebSocket")

// Server is the exchange of a transcript.
type Server struct {
	HTTP    string // address
	XML     func(xml string) (reply string)
	Restart func() *Server // kills and restarts it; may be nil if no transcript does
}

// Play runs each transcript of testdata/websocket against a server of its own, and compares the messages that it
// receives.
//
// Lines that begin with "xml" are sent over XML, lines with ">" over WebSocket. After those, lines with "<" are the
// answers and then the events sorted by channel. "restart" kills and restarts the server and reconnects; nothing that
// was accepted may be lost.
func Play(t *testing.T, newServer func(t *testing.T) *Server) {
	files, err := filepath.Glob("testdata/websocket/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			s := &story{t: t}
			s.connect(newServer(t))
			got := s.run(strings.Split(string(b), "\n"))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(b), got, "run this test with -rewrite if the messages should change")
		})
	}
}

// story is the run of one transcript.
type story struct {
	t      *testing.T
	server *Server
	ws     *Conn
	out    strings.Builder
}

// connect continues the transcript with a server.
func (s *story) connect(server *Server) {
	s.server, s.ws = server, Dial(s.t, server.HTTP, "")
}

// run runs a transcript and returns it with the messages actually received.
func (s *story) run(lines []string) string {
	for i := 0; i < len(lines); {
		line := lines[i]
		i++
		switch {
		case strings.HasPrefix(line, "xml "):
			reply := s.server.XML(strings.TrimPrefix(line, "xml "))
			require.NotContains(s.t, reply, "<error", "%s", line)
			s.line(line)
		case line == "restart":
			s.connect(s.server.Restart())
			s.line(line)
		case strings.HasPrefix(line, "> "):
			s.ws.Write(strings.TrimPrefix(line, "> "))
			s.line(line)
			if i < len(lines) && strings.HasPrefix(lines[i], "> ") {
				continue
			}
			want := 0
			for i < len(lines) && strings.HasPrefix(lines[i], "< ") {
				want++
				i++
			}
			s.receive(want)
		default:
			s.line(line)
		}
	}
	return strings.TrimSuffix(s.out.String(), "\n")
}

func (s *story) line(text string) { s.out.WriteString(text + "\n") }

// Quiet is how long tests wait for a message that must not arrive, and a rewritten transcript for a further message.
const Quiet = 400 * time.Millisecond

// receive appends the next want messages to the output or, while transcripts are being rewritten, all that arrive.
func (s *story) receive(want int) {
	var all []string
	for *rewrite || len(all) < want {
		wait := Patience
		if *rewrite && len(all) > 0 {
			wait = Quiet
		}
		text, err := s.ws.ReadOrTimeout(wait)
		if *rewrite && errors.Is(err, context.DeadlineExceeded) {
			break
		}
		require.NoError(s.t, err)
		all = append(all, text)
	}
	channel := func(text string) string {
		var m struct{ Params struct{ Channel string } }
		require.NoError(s.t, json.Unmarshal([]byte(text), &m))
		return m.Params.Channel
	}
	slices.SortStableFunc(all, func(a, b string) int { return strings.Compare(channel(a), channel(b)) })
	for _, text := range all {
		s.line("< " + WithoutTimes(text))
	}
}
