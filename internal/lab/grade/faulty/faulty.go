// Package faulty is a small server of the XML protocol with faults that can be switched on, such as those of
// students' servers. The grading kit is tested with it. Without a fault the server is correct; it is slow, and
// shares no code with the exchange or its reference model.
package faulty

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"outcry/internal/lab/dialect"
)

// Options configure a server. The zero value is a correct one.
type Options struct {
	Faults  []string       `json:"faults,omitempty"` // names from Faults
	Habits  dialect.Habits `json:"habits"`           // how the server's form differs from the protocol
	Hostile string         `json:"hostile,omitempty"`
	// Journal is the path of a file in which the server records its frames and from which it restores its state;
	// "" records nothing. The faults of the group durability need one.
	Journal string `json:"journal,omitempty"`
	// Twin, if not nil, answers frames in place of this package's own exchange. Sockets, habits and journal are the
	// same. It gets one frame's XML and the time in seconds, and returns the reply's XML. It is called by one
	// goroutine at a time. Command ignores it.
	Twin func(doc []byte, now int64) []byte `json:"-"`
}

// Fault is one way in which a server can be wrong.
type Fault struct {
	Name  string
	Group string // group of the cases that fail because of the fault
	Tell  string // short description of what the server does
}

// has reports whether a fault is switched on. It panics if there is no such fault.
func (o *Options) has(name string) bool {
	if !slices.ContainsFunc(Faults, func(f Fault) bool { return f.Name == name }) {
		panic("faulty: no fault " + name)
	}
	return slices.Contains(o.Faults, name)
}

// check returns an error that names an unknown fault or hostility.
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

// Serve serves connections until l is closed. It closes all connections, and returns when all its goroutines have
// ended. The error is about an invalid option, the journal or l; it is nil if l was closed.
func Serve(l net.Listener, o Options) error {
	s, err := newServer(l, o)
	if err != nil {
		return err
	}
	return s.run()
}

// run accepts connections until l is closed, then closes them.
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

// Start serves on a free port of the loopback. stop stops the server, and returns when all its goroutines have ended.
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
	served.Go(func() { _ = s.run() }) // it ends when l is closed
	return l.Addr().String(), func() { _ = l.Close(); served.Wait() }, nil
}
