package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"outcry/internal/testing/processes"
)

// Usage is the processor time, memory and files that a process uses.
type Usage = processes.Usage

// Usage returns the resources that the server has used so far. It returns an error if the process has ended.
func (s *Server) Usage() (Usage, error) { return processes.Of(s.Pid()) }

// OwnCPU returns the processor time of this process so far.
func OwnCPU() time.Duration {
	var self unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &self) // fails only on invalid arguments
	return time.Duration(self.Utime.Nano() + self.Stime.Nano())
}

// CPU returns the processor time used so far by all processes of the cluster, including those that have
// ended.
func (p *Postgres) CPU() time.Duration { return processes.FamilyCPU(p.cluster.Pid()) }

// Every calls look immediately and then every d, until stop is called. stop waits for the last call.
func Every(d time.Duration, look func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			look()
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// Tidy makes Postgres do its background work of several minutes at once.
func (p *Postgres) Tidy(ctx context.Context) error {
	db, err := pgx.Connect(ctx, p.AdminURL())
	if err == nil {
		defer db.Close(ctx)
		_, vacuum := db.Exec(ctx, "VACUUM (ANALYZE)")
		_, checkpoint := db.Exec(ctx, "CHECKPOINT")
		err = errors.Join(vacuum, checkpoint)
	}
	if err != nil {
		return fmt.Errorf("harness: tidy: %w", err)
	}
	return nil
}
