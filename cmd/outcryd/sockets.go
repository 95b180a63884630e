package main

import (
	"context"
	"sync"
	"time"

	"outcry/internal/door/websocket"
)

// newSockets returns what has the WebSocket connections of all doors.
func (s *server) newSockets() *websocket.Server {
	m := websocket.NewMetrics()
	s.metrics.registry.MustRegister(m)
	return websocket.NewServer(websocket.Options{
		Max:         func() int { return s.connections().XML },
		IdleTimeout: func() time.Duration { return s.settings().IdleTimeout },
		Origins:     s.config.Origins(),
		Log:         s.log, Metrics: m,
	})
}

// endClients ends all connections of clients in order: what has arrived is done and answered. Those that are left when
// ctx ends are cut off.
func (s *server) endClients(ctx context.Context) {
	var ends []func(context.Context) error
	if s.sessions != nil {
		ends = append(ends, s.sessions.Shutdown)
	}
	if s.sockets != nil {
		ends = append(ends, s.sockets.Shutdown)
	}
	var cut sync.Once
	var ending sync.WaitGroup
	for _, end := range ends {
		ending.Go(func() {
			if end(ctx) != nil {
				cut.Do(func() { s.log.Warn("some connections did not end in time and were cut off") })
			}
		})
	}
	ending.Wait()
}
