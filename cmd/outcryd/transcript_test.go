package main

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
)

func transcripts(t *testing.T) []model.Transcript {
	all, err := model.Transcripts()
	require.NoError(t, err)
	return all
}

func TestTranscriptsInProcess(t *testing.T) {
	raced(t)
	for _, transcript := range transcripts(t) {
		t.Run(transcript.Name, func(t *testing.T) {
			t.Parallel()
			flags, _ := dataFlags(t)
			_, addr := inProcess(t, flags...)
			converse(t, transcript, dial(t, addr))
		})
	}
}

func TestTranscriptsWithoutLengthLines(t *testing.T) {
	flags, _ := dataFlags(t)
	_, addr := inProcess(t, append(flags, "--bare-replies")...)
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "9\n<create/>12\n<create/>   9\n<nothing>8\n<create>")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	e := "<results><error>*</error></results>"
	require.Equal(t, "<results/><results/>"+e+e, model.Normalize(got))
}

// converse sends the requests of a transcript and requires its replies.
func converse(t *testing.T, transcript model.Transcript, c *conn) {
	t.Helper()
	for i, step := range transcript.Steps {
		if step.Raw {
			require.Equal(t, step.Want, model.Normalize([]byte(sendRaw(t, c.Conn, step.Send))), "step %d", i+1)
			return
		}
		reply := c.must(t, string(step.Send))
		require.Equal(t, step.Want, model.Normalize([]byte(reply)), "step %d: %.300s", i+1, step.Send)
		for _, text := range model.Texts([]byte(reply)) {
			require.NotContains(t, text, "\n")
			require.Less(t, len(text), 600)
		}
	}
}

// sendRaw sends bytes, closes the sending side, and returns the XML of all replies until the connection ends. It
// checks the replies' length lines.
func sendRaw(t *testing.T, c net.Conn, b []byte) (all string) {
	t.Helper()
	go func() {
		_, _ = c.Write(b) // a server that refuses the bytes may close before it has read all
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	rest := string(got)
	for rest != "" {
		line, after, ok := strings.Cut(rest, "\n")
		require.True(t, ok, "%q", rest)
		n, err := strconv.Atoi(line)
		require.NoError(t, err)
		require.Regexp(t, "^<results.*>$", after[:n])
		all, rest = all+after[:n], after[n:]
	}
	return all
}

// TestTranscriptsAcrossKills runs the transcripts against the real program and kills it before every step. A restart
// must lose nothing that was answered.
func TestTranscriptsAcrossKills(t *testing.T) {
	for _, transcript := range transcripts(t) {
		if !strings.Contains("worked-example first-sessions matching transactions", transcript.Name) {
			continue
		}
		t.Run(transcript.Name, func(t *testing.T) {
			t.Parallel()
			flags, _ := dataFlags(t)
			for i, step := range transcript.Steps {
				p := start(t, flags...)
				reply := dial(t, p.xml).must(t, string(step.Send))
				require.Equal(t, step.Want, model.Normalize([]byte(reply)), "step %d: %.300s", i+1, step.Send)
				p.kill()
			}
		})
	}
}

func TestTranscriptsWithTheRealProgram(t *testing.T) {
	for _, transcript := range transcripts(t) {
		t.Run(transcript.Name, func(t *testing.T) {
			t.Parallel()
			flags, _ := dataFlags(t)
			p := start(t, append(flags, "--ack=postgres")...)
			converse(t, transcript, dial(t, p.xml))
			p.stop(t)
		})
	}
}
