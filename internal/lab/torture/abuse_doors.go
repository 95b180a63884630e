package torture

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// Attacks on the server's ports: connections that are idle, that end at once, or that send garbage; requests
// without their bodies, and requests for a foreign host.

const (
	idleSmall, idleLarge = 500, 20_100 // connections; the large number exceeds the server's descriptors
	idleBeyond           = 100         // connections beyond the server's descriptors
	ownFiles             = 1000        // descriptors reserved for this process

	segmentTurns = 3000 // enough orders to fill a segment of the journal
	settledFiles = 64   // descriptors that may remain open after the abuser has left

	bodiesSmall, bodiesLarge = 300, 2000 // requests without their bodies
	bodiesWhole              = 20        // complete requests of another client

	floodSmall, floodLarge = 1000, 10_000 // connections
)

// idleConnections returns how many connections the abuser opens, limited by this process's descriptors.
func (s *server) idleConnections() int {
	n := s.size(idleSmall, idleLarge)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		n = min(n, max(int(min(limit.Cur, 1<<20))-ownFiles, idleSmall))
	}
	return n
}

// abuseFiles holds idle HTTP connections, which must not affect XML, the journal or --health. Then it
// holds idle XML connections up to the server's limit, which must not affect existing connections.
func (s *server) abuseFiles(ctx context.Context) error {
	before, err := s.server.Usage()
	if err != nil {
		return err
	}
	n := s.idleConnections()
	hold := func(addr, send string, steps ...step) error {
		conns, err := audit.HoldIdle(ctx, addr, send, n)
		defer audit.CloseAll(conns)
		if err = errors.Join(err, inTurn(ctx, append(steps, s.turnSegment, s.askHealth)...)); err != nil {
			return fmt.Errorf("with %d idle connections at %s: %w", len(conns), addr, err)
		}
		return nil
	}
	if err := hold(s.server.HTTP, "GET / HTTP/1.1\r\nHost: "+s.server.HTTP+"\r\n\r\n", s.getIn); err != nil {
		return err
	}
	s.End.Full.Store(true)
	if err := hold(s.server.XML, ""); err != nil {
		return err
	}
	s.summarize("%d idle connections of HTTP, then of XML, of %d descriptors", n, s.files)
	return s.settled(ctx, before)
}

// turnSegment waits until traders have filled a segment of the journal.
func (s *server) turnSegment(ctx context.Context) error { return s.awaitAnswers(ctx, segmentTurns) }

// getIn checks that a new client can connect.
func (s *server) getIn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, audit.ReplyTimeout)
	defer cancel()
	_, err := audit.Ask(ctx, s.abuser, wire.NewTransactions(abuserName).Query("1").Append(nil))
	return err
}

// askHealth requests the health check as a container does.
func (s *server) askHealth(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, s.plain, "--health", "--http="+s.server.HTTP, "--data="+s.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("--health: %w: %s", err, out)
	}
	return nil
}

// settled waits until the abuser's descriptors are closed and a new client can connect.
func (s *server) settled(ctx context.Context, before harness.Usage) error {
	err := s.await(ctx, "the abuser's descriptors are closed", 0, func() (bool, error) {
		now, err := s.server.Usage()
		return now.Files <= before.Files+settledFiles, err
	})
	return errors.Join(err, s.getIn(ctx))
}

// abuseBodies sends requests without their bodies, next to a client that sends complete ones.
func (s *server) abuseBodies(ctx context.Context) error {
	conns, err := audit.WithholdBodies(ctx, s.server.HTTP, s.abuser.Token, s.size(bodiesSmall, bodiesLarge))
	defer audit.CloseAll(conns)
	if err != nil {
		return err
	}
	body := string(wire.NewTransactions(abuserName).Query("1").Append(nil))
	for n := range bodiesWhole {
		if err := s.must(ctx, "/xml", s.abuser.Token, body); err != nil {
			return fmt.Errorf("with %d requests whose body does not arrive, whole request %d: %w", len(conns), n+1, err)
		}
	}
	s.summarize("%d requests whose body does not arrive", len(conns))
	return nil
}

// abuseFloods opens and closes connections, some after sending garbage.
func (s *server) abuseFloods(ctx context.Context) error {
	before, err := s.server.Usage()
	if err != nil {
		return err
	}
	n := s.size(floodSmall, floodLarge)
	err = errors.Join(audit.Flood(ctx, s.server.XML, s.server.HTTP, n), audit.Smuggle(ctx, s.server.HTTP))
	if err != nil {
		return err
	}
	s.summarize("%d connections that end at once", n)
	return s.settled(ctx, before)
}

// abuseHosts sends requests that a web page of another host could make a browser send.
func (s *server) abuseHosts(ctx context.Context) error {
	sent, err := audit.ForeignHosts(ctx, s.server.HTTP, s.Symbols[0])
	s.summarize("%d requests of foreign hosts", sent)
	return err
}
