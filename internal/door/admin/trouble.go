package admin

import (
	"bytes"
	"log"
	"log/slog"
)

// troubleLog returns a log for net/http and promhttp. What they write has the client's
// address and the error in its text, so each line would be a message of its own.
func troubleLog(to *slog.Logger) *log.Logger { return log.New(trouble{to}, "", 0) }

// trouble is an io.Writer of lines.
type trouble struct{ to *slog.Logger }

func (t trouble) Write(line []byte) (int, error) {
	t.to.Warn("the HTTP side has trouble", "error", string(bytes.TrimSpace(line)))
	return len(line), nil
}
