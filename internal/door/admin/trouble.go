package admin

import (
	"bytes"
	"log"
	"log/slog"
)

// troubleLog returns a logger for net/http and promhttp. Their messages contain the client's address and the error, so
// each line is logged as an attribute of one fixed message.
func troubleLog(to *slog.Logger) *log.Logger { return log.New(trouble{to}, "", 0) }

// trouble is an io.Writer that logs each line as a warning.
type trouble struct{ to *slog.Logger }

func (t trouble) Write(line []byte) (int, error) {
	t.to.Warn("the HTTP side reports an error", "error", string(bytes.TrimSpace(line)))
	return len(line), nil
}
