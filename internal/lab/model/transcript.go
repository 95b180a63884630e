package model

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

// Transcript is a conversation in which every implementation of the protocol must send the same bytes. It begins with
// an empty exchange and uses one connection.
//
// Its file is a txtar archive. The text before the first section is the story. The sections come in
// pairs:
//
//	-- send -- / -- want --   the XML of a frame, and the XML of its reply. The last
//	                          line feed of a section belongs to the archive, not the XML
//	-- raw --  / -- want --   bytes to send over the wire, and all that the server sends
//	                          back before it closes. Both are Go strings, one on each
//	                          line, which are joined. The client closes its sending side
//	                          after the raw bytes, so a raw step must be the last one
//
// "{{S*N}}" means S repeated N times; a "%d" in S counts from 1. In a want section the text of an error is "*", which
// matches any nonempty text; a time is "T"; line feeds are left out. In the want section of raw bytes the length lines
// are left out too, but they are checked.
type Transcript struct {
	Name  string
	Steps []Step
}

// Step is one request and its expected reply.
type Step struct {
	Send []byte // the XML of a frame, or raw bytes of the stream if Raw is set
	Want string // expected reply, normalized
	Raw  bool
}

// Transcripts returns all transcripts, sorted by name. An error names the malformed transcript.
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
			return nil, fmt.Errorf("model: transcript %s: %w", entry.Name(), err)
		}
		all = append(all, Transcript{strings.TrimSuffix(entry.Name(), ".txtar"), steps})
	}
	return all, nil
}

func steps(a *txtar.Archive) (all []Step, err error) {
	if len(a.Files) == 0 || len(a.Files)%2 != 0 || len(a.Comment) == 0 {
		return nil, fmt.Errorf("%d sections, a story of %d bytes", len(a.Files), len(a.Comment))
	}
	for i := 0; i < len(a.Files); i += 2 {
		s, err := step(a.Files[i], a.Files[i+1])
		if err != nil {
			return nil, fmt.Errorf("section %d: %w", i, err)
		}
		if s.Raw && i+2 < len(a.Files) {
			return nil, fmt.Errorf("section %d is raw and not the last step", i)
		}
		all = append(all, s)
	}
	return all, nil
}

// step reads one pair of sections.
func step(send, want txtar.File) (Step, error) {
	if send.Name != "send" && send.Name != "raw" || want.Name != "want" {
		return Step{}, fmt.Errorf("%q, then %q", send.Name, want.Name)
	}
	read := xmlOf
	if send.Name == "raw" {
		read = bytesOf
	}
	sent, err := read(send.Data)
	if err != nil {
		return Step{}, err
	}
	wanted, err := read(want.Data)
	if err != nil {
		return Step{}, err
	}
	if send.Name == "send" {
		wanted = strings.ReplaceAll(wanted, "\n", "")
	}
	return Step{[]byte(sent), wanted, send.Name == "raw"}, nil
}

// xmlOf returns a section's XML with macros expanded.
func xmlOf(b []byte) (string, error) { return expand(strings.TrimSuffix(string(b), "\n")) }

// bytesOf joins the Go strings of a section, one on each line.
func bytesOf(b []byte) (string, error) {
	var joined strings.Builder
	for line := range strings.Lines(string(b)) {
		s, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			return "", fmt.Errorf("%s is not a Go string: %w", strings.TrimSpace(line), err)
		}
		s, err = expand(s)
		if err != nil {
			return "", err
		}
		joined.WriteString(s)
	}
	return joined.String(), nil
}

// expand expands each "{{S*N}}".
func expand(s string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		what, after, closed := strings.Cut(rest, "}}")
		star := max(strings.LastIndex(what, "*"), 0)
		times, err := strconv.Atoi(strings.TrimPrefix(what[star:], "*"))
		if err != nil || times < 1 || !closed {
			return "", fmt.Errorf("{{%s is not {{text*times}}", what)
		}
		for i := range times {
			out.WriteString(strings.ReplaceAll(what[:star], "%d", strconv.Itoa(i+1)))
		}
		s = after
	}
}
