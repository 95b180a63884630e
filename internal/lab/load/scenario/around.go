package scenario

import (
	"context"
	"fmt"
	"net"

	"outcry/internal/lab/load"
)

// Surround opens the connections that a scenario has besides its clients: idle ones that send nothing, and readers
// of the market data stream of the HTTP server at http. leave closes them all and may be called more than once. It
// returns how many bytes the readers have received, and an error if the server has disconnected a reader.
func (r *Run) Surround(ctx context.Context, http string) (leave func() (received uint64, err error), err error) {
	var idle []net.Conn
	streams, err := load.OpenReaders(ctx, http, r.Params.Readers, func(n int) string {
		return "/api/v1/stream?sym=" + r.symbol(n%max(r.Params.Symbols, 1))
	})
	if err != nil {
		return nil, err
	}
	leave = func() (uint64, error) {
		for _, c := range idle {
			c.Close()
		}
		streams.Leave()
		received, cut := streams.Received()
		if cut > 0 {
			return received, fmt.Errorf("scenario: the server has disconnected %d readers of the stream", cut)
		}
		return received, nil
	}
	var d net.Dialer
	for range r.Params.Idle {
		c, err := d.DialContext(ctx, "tcp", r.Addrs[0])
		if err != nil {
			_, _ = leave()
			return nil, fmt.Errorf("scenario: idle connection %d: %w", len(idle)+1, err)
		}
		idle = append(idle, c)
	}
	return leave, nil
}
