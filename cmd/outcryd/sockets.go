package main

import (
	"context"
	"sync"
	"time"

	"outcry/internal/door/websocket"
)

// newSockets returns the server of the WebSocket connections of all doors.
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

// endClients ends all client connections in order: commands that have arrived are executed and answered.
// Connections that are still open when ctx ends are cut off.
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
