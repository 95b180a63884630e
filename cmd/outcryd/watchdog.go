package main

import (
	"context"
	"errors"

	"outcry/internal/engine"
	"outcry/internal/process/sdnotify"
)

// feedWatchdog starts to report to the service manager that the exchange is alive. The returned function ends the
// reports and waits until they have ended. An exchange that is stopping counts as alive, since a stop has its own
// time limits.
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

// alive returns an error if the journal has failed, or if a goroutine that executes commands does not
// answer before ctx ends. It returns nil while the exchange starts or stops.
func (s *server) alive(ctx context.Context) error {
	if why := s.notReady.Load(); why != nil {
		return nil
	}
	if err := s.journal.Err(); err != nil {
		return err
	}
	if err := s.member.err(); err != nil {
		return nil // the process is about to restart or end
	}
	err := s.engine.Alive(ctx)
	if errors.Is(err, engine.ErrStopped) {
		return nil
	}
	return err
}

// status returns the exchange's state as a line for the service manager.
func (s *server) status() string {
	if err := s.ready(); err != nil {
		return sdnotify.Status("not ready: %v", err)
	}
	return sdnotify.Status("taking orders")
}
