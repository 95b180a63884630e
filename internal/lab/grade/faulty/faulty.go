// Package faulty is a small server of the XML protocol with faults that are switched on one at a
// time: those that servers of students have. What grades servers is graded with it. Without a
// fault it is right; it is slow, and shares no code with the exchange or its reference model.
package faulty

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"outcry/internal/lab/dialect"
)

// Options say what is wrong with a server. The zero value is a right one.
type Options struct {
	Faults  []string       `json:"faults,omitempty"` // names of Faults
	Habits  dialect.Habits `json:"habits"`           // how it differs in form
	Hostile string         `json:"hostile,omitempty"`
	// Journal is a file in which a server keeps what it was sent, and from which it begins anew; ""
	// keeps nothing. The faults of the group durability need one.
	Journal string `json:"journal,omitempty"`
	// Twin answers instead of this package's own exchange, with the same sockets, habits and journal.
	// It takes one frame's XML and the time in seconds, and returns the reply's. It is called by one
	// goroutine at a time. Command cannot take it along.
	Twin func(doc []byte, now int64) []byte `json:"-"`
}

// Fault is something that a server does wrong.
type Fault struct {
	Name  string
	Group string // of the cases that it fails
	Tell  string // what it does, in a few words
}

// has reports whether a fault is switched on. It panics if there is no such fault.
func (o *Options) has(name string) bool {
	if !slices.ContainsFunc(Faults, func(f Fault) bool { return f.Name == name }) {
		panic("faulty: no fault " + name)
	}
	return slices.Contains(o.Faults, name)
}

// check returns an error that names the fault or the hostility that there is not.
func (o *Options) check() error {
	for _, name := range o.Faults {
		if !slices.ContainsFunc(Faults, func(f Fault) bool { return f.Name == name }) {
			return fmt.Errorf("faulty: there is no fault %q", name)
		}
	}
	if _, ok := hostile[o.Hostile]; o.Hostile != "" && !ok {
		return fmt.Errorf("faulty: there is no hostility %q", o.Hostile)
	}
	return nil
}

// Serve serves connections until l is closed. It returns when all its goroutines have ended; the
// connections are closed then. The error is that of an option, or of the journal, and is nil if l
// was closed.
func Serve(l net.Listener, o Options) error {
	s, err := newServer(l, o)
	if err != nil {
		return err
	}
	return s.run()
}

// run is Serve once there is a server.
func (s *server) run() error {
	defer s.close()
	for {
		c, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("faulty: %w", err)
		}
		s.begin(c)
	}
}

// Start serves on a free port of the loopback. stop ends it, and returns when nothing of it runs.
func Start(o Options) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("faulty: %w", err)
	}
	s, err := newServer(l, o)
	if err != nil {
		_ = l.Close()
		return "", nil, err
	}
	var served sync.WaitGroup
	served.Go(func() { _ = s.run() }) // what it returns is that l was closed
	return l.Addr().String(), func() { _ = l.Close(); served.Wait() }, nil
}
