package admin

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"outcry/internal/process/logging"
)

// logLevelBytesMax bounds the body of PUT /loglevel.
const logLevelBytesMax = 64

// showLogLevel answers GET /loglevel.
func (o *Options) showLogLevel(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, o.LogLevel.Level())
}

// setLogLevel answers PUT /loglevel, whose body is the new level. The change is logged if the level before or after it
// shows warnings.
func (o *Options) setLogLevel(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, logLevelBytesMax))
	if err != nil {
		http.Error(w, "the body did not arrive, or is not a level: "+err.Error(), http.StatusBadRequest)
		return
	}
	var level slog.Level
	if err := level.UnmarshalText(bytes.TrimSpace(body)); err != nil || !logging.IsLevel(level) {
		http.Error(w, fmt.Sprintf("%q is not a level: DEBUG, INFO, WARN or ERROR", body), http.StatusBadRequest)
		return
	}
	before := o.LogLevel.Level()
	o.LogLevel.Set(min(before, level))
	o.Log.Warn("the log level is changed", "from", before.String(), "to", level.String(), who(r))
	o.LogLevel.Set(level)
	fmt.Fprintln(w, level)
}
