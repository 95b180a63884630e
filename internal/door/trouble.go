package door

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"outcry/internal/engine"
)

// LimitKey is the attribute of log lines that names the limit a client has run into, with the names of the
// metric outcry_limit_hits_total.
const LimitKey = "limit"

// log writes a line about the connection, with its number, which is also in its last reply, and its address.
// frame is the number of the frame that the line is about, counted from 1, or 0 for none.
func (c *session) log(level slog.Level, message string, frame uint64, attrs ...slog.Attr) {
	l := c.server.options.Log
	if !l.Enabled(context.Background(), level) {
		return
	}
	all := []slog.Attr{slog.Uint64("connection", c.id), slog.String("client", c.conn.RemoteAddr().String())}
	if frame > 0 {
		all = append(all, slog.Uint64("frame", frame))
	}
	l.LogAttrs(context.Background(), level, message, append(all, attrs...)...)
}

// lastReply returns a reply with the reason why the connection is closed and the connection's number, which
// finds the connection in the log.
func (c *session) lastReply(reason string) *reply {
	r := c.server.newReply(engine.Mark{}, time.Time{})
	r.last = true
	text := fmt.Sprintf("%s (connection %d)", reason, c.id)
	r.bytes = c.codec.EndReply(c.codec.AppendError(r.bytes, text), 0)
	return r
}
