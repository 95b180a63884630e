package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// logLines is how many lines of a server's log are kept.
const logLines = 30

// logTail keeps the last lines of a server's log and detects the "ready" line.
type logTail struct {
	copy    io.Writer
	onReady func(xml, http string) // called once

	mu      sync.Mutex // guards the fields below
	partial []byte     // an incomplete line
	lines   []string
	isReady bool
}

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.copy != nil {
		_, _ = l.copy.Write(p) // a failing copy must not stop the server
	}
	l.partial = append(l.partial, p...)
	for {
		line, rest, ok := bytes.Cut(l.partial, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.line(string(line))
		l.partial = bytes.Clone(rest)
	}
}

func (l *logTail) line(text string) {
	if len(l.lines) == logLines {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	l.lines = append(l.lines, text)
	if attrs := attributes(text); !l.isReady && attrs["msg"] == "ready" {
		l.isReady = true
		l.onReady(fmt.Sprint(attrs["xml"]), fmt.Sprint(attrs["http"]))
	}
}

// attributes returns the attributes of a log line, or nil if it is not JSON.
func attributes(line string) (attrs map[string]any) {
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	if decoder.Decode(&attrs) != nil {
		return nil
	}
	return attrs
}

func (l *logTail) attr(name string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range slices.Backward(l.lines) {
		if v, ok := attributes(line)[name]; ok {
			return fmt.Sprint(v), true
		}
	}
	return "", false
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n") + string(l.partial)
}
