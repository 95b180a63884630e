package main

import (
	"math"

	"golang.org/x/sys/unix"

	"outcry/internal/operate"
)

// connectionBounds are how many connections there may be of the XML port and of the HTTP
// side: --max-connections and --max-http-connections, or less where the process may not
// have so many files open.
type connectionBounds struct {
	xml, http int
	files     uint64 // that the process may have open
	lowered   bool
}

// openFilesMax returns how many files the process may have open. It is what the limit
// allows at the most: the runtime has raised it.
func openFilesMax() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

// connectionsWithin returns the bounds for a process that may have so many files open.
func (c *config) connectionsWithin(files uint64) connectionBounds {
	asked := c.httpConnectionsMax
	if c.http == "" {
		asked = 0
	}
	b := connectionBounds{files: files}
	b.xml, b.http = operate.ConnectionsWithin(files, c.connectionsMax, asked)
	b.lowered = b.xml != c.connectionsMax || b.http != asked
	return b
}

// connections returns the bounds that hold for the settings as they are now.
func (s *server) connections() connectionBounds {
	return s.settings().connectionsWithin(openFilesMax())
}

// connectionsLowered is the warning of bounds that are lower than what was asked for.
const connectionsLowered = "the limit of open files leaves room for fewer connections than the settings allow; raise ulimit -n, or LimitNOFILE= of a unit"

// warnOfDescriptors says what the bounds are where they had to be lowered.
func (s *server) warnOfDescriptors() {
	if b := s.connections(); b.lowered {
		s.log.Warn(connectionsLowered, "open_files", b.files, "reserve", operate.DescriptorReserve, "max-connections", b.xml, "max-http-connections", b.http)
	}
}
