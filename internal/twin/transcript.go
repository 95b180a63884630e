package twin

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed transcripts/*.txtar
var archives embed.FS

// Transcript is a conversation that every exchange of the protocol has in the
// same bytes. It begins with an exchange that has nothing in it, on one
// connection.
//
// Its file is a txtar archive. The text before the first section tells the story.
// The sections stand in pairs:
//
//	-- send -- / -- want --   the XML of a frame, and that of its reply. The last
//	                          line feed of a section is the archive's, not the XML's
//	-- raw --  / -- want --   bytes as they go over the wire, and all that comes
//	                          back until the server closes, as Go strings, one a
//	                          line, to be joined. The client ends its sending
//	                          side behind raw bytes, so a raw step is the last one
//
// "{{S*N}}" stands for N times S in what is sent. In a want the text of an error
// is "*", which stands for any that is not empty, a time is "T", and line feeds
// are left out; in the want of raw bytes the length lines are left out too, but
// they are checked.
type Transcript struct {
	Name  string
	Steps []Step
}

// Step is one request and what it is answered with.
type Step struct {
	Send []byte // a frame's XML or, where Raw is set, bytes of the stream
	Want string // normalized
	Raw  bool
}

// Transcripts returns all transcripts. The error names what is wrong with one.
func Transcripts() ([]Transcript, error) {
	entries, err := archives.ReadDir("transcripts")
	if err != nil {
		return nil, err
	}
	var all []Transcript
	for _, entry := range entries {
		b, err := archives.ReadFile(path.Join("transcripts", entry.Name()))
		if err != nil {
			return nil, err
		}
		steps, err := steps(txtar.Parse(b))
		if err != nil {
			return nil, fmt.Errorf("twin: transcript %s: %w", entry.Name(), err)
		}
		all = append(all, Transcript{strings.TrimSuffix(entry.Name(), ".txtar"), steps})
	}
	return all, nil
}

func steps(a *txtar.Archive) (all []Step, err error) {
	if len(a.Files)%2 != 0 || len(a.Comment) == 0 {
		return nil, fmt.Errorf("%d sections, a story of %d bytes", len(a.Files), len(a.Comment))
	}
	for i := 0; i < len(a.Files); i += 2 {
		send, want := a.Files[i], a.Files[i+1]
		if send.Name != "send" && send.Name != "raw" || want.Name != "want" {
			return nil, fmt.Errorf("section %d is %q, then %q", i, send.Name, want.Name)
		}
		s := Step{Raw: send.Name == "raw"}
		if s.Raw {
			if s.Send, err = unquote(send.Data); err == nil {
				var b []byte
				b, err = unquote(want.Data)
				s.Want = string(b)
			}
		} else {
			s.Send, err = expand(strings.TrimSuffix(string(send.Data), "\n"))
			s.Want = strings.ReplaceAll(strings.TrimSuffix(string(want.Data), "\n"), "\n", "")
		}
		if err != nil {
			return nil, fmt.Errorf("section %d: %w", i, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// unquote joins Go strings that stand one a line.
func unquote(b []byte) (joined []byte, err error) {
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if line == "" {
			continue
		}
		s, err := strconv.Unquote(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		s2, err := expand(s)
		if err != nil {
			return nil, err
		}
		joined = append(joined, s2...)
	}
	return joined, nil
}

// expand writes out "{{S*N}}".
func expand(s string) ([]byte, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		out.WriteString(before)
		if !found {
			return []byte(out.String()), nil
		}
		what, after, ok := strings.Cut(rest, "}}")
		text, times, ok2 := strings.Cut(what, "*")
		n, err := strconv.Atoi(times)
		if !ok || !ok2 || err != nil {
			return nil, fmt.Errorf("{{%s is no {{text*times}}", what)
		}
		out.WriteString(strings.Repeat(text, n))
		s = after
	}
}
