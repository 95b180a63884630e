package main

import (
	"context"
	"errors"

	"outcry/internal/engine"
	"outcry/internal/process/sdnotify"
)

// feedWatchdog begins to tell the service manager that the exchange is alive, until
// the returned function is called, which waits for the end. An exchange that stops
// counts as alive: a stop has time limits of its own.
func (s *server) feedWatchdog() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.manager.Feed(ctx, s.alive, s.status)
	}()
	return func() {
		cancel()
		<-done
	}
}

// alive returns nil while the journal has not failed and every goroutine that takes
// commands answers, before ctx ends, or while the exchange stops.
func (s *server) alive(ctx context.Context) error {
	if why := s.notReady.Load(); why != nil {
		return nil
	}
	if err := s.journal.Err(); err != nil {
		return err
	}
	if err := s.member.err(); err != nil {
		return nil // the process is about to begin again, or to end
	}
	err := s.engine.Alive(ctx)
	if errors.Is(err, engine.ErrStopped) {
		return nil
	}
	return err
}

// status says in a line how the exchange is.
func (s *server) status() string {
	if err := s.ready(); err != nil {
		return sdnotify.Status("not ready: %v", err)
	}
	return sdnotify.Status("taking orders")
}
