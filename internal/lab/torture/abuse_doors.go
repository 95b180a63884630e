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

// Attacks on the server's ports: connections that are idle, that end at once, that send garbage; requests
// without their body, and requests for a foreign host.

const (
	idleSmall, idleLarge = 500, 20_100 // connections; the large number exceeds the server's descriptors
	idleBeyond           = 100         // by how many
	ownFiles             = 1000        // descriptors reserved for this process

	segmentTurns = 3000 // enough orders to fill a segment of the journal
	settledFiles = 64   // descriptors that may remain open after the abuser has left

	bodiesSmall, bodiesLarge = 300, 2000 // requests without their body
	bodiesWhole              = 20        // complete requests of another client

	floodSmall, floodLarge = 1000, 10_000 // connections
)

// idleConnections returns how many connections the abuser opens, limited by this process's descriptors.
func (r *runner) idleConnections() int {
	n := r.size(idleSmall, idleLarge)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		n = min(n, max(int(min(limit.Cur, 1<<20))-ownFiles, idleSmall))
	}
	return n
}

// abuseFiles holds idle HTTP connections, which must not affect XML, the journal or --health. Then it
// holds idle XML connections up to the server's limit, which must not affect existing connections.
func (r *runner) abuseFiles(ctx context.Context) error {
	before, err := r.server.Usage()
	if err != nil {
		return err
	}
	n := r.idleConnections()
	hold := func(addr, send string, steps ...step) error {
		conns, err := audit.HoldIdle(ctx, addr, send, n)
		defer audit.CloseAll(conns)
		if err = errors.Join(err, inTurn(ctx, append(steps, r.turnSegment, r.askHealth)...)); err != nil {
			return fmt.Errorf("with %d idle connections at %s: %w", len(conns), addr, err)
		}
		return nil
	}
	if err := hold(r.server.HTTP, "GET / HTTP/1.1\r\nHost: "+r.server.HTTP+"\r\n\r\n", r.getIn); err != nil {
		return err
	}
	r.End.Full.Store(true)
	if err := hold(r.server.XML, ""); err != nil {
		return err
	}
	r.abuseNote("%d idle connections of HTTP, then of XML, of %d descriptors", n, r.files)
	return r.settled(ctx, before)
}

// turnSegment waits until traders have filled a segment of the journal.
func (r *runner) turnSegment(ctx context.Context) error { return r.awaitAnswers(ctx, segmentTurns) }

// getIn checks that a new client can connect.
func (r *runner) getIn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, audit.ReplyTimeout)
	defer cancel()
	_, err := audit.Ask(ctx, r.abuser, wire.NewTransactions(abuserName).Query("1").Append(nil))
	return err
}

// askHealth requests the health check as a container does.
func (r *runner) askHealth(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, r.plain, "--health", "--http="+r.server.HTTP, "--data="+r.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("--health: %w: %s", err, out)
	}
	return nil
}

// settled waits until the abuser's descriptors are closed and a new client can connect.
func (r *runner) settled(ctx context.Context, before harness.Usage) error {
	err := r.await(ctx, "the abuser's descriptors are closed", 0, func() (bool, error) {
		now, err := r.server.Usage()
		return now.Files <= before.Files+settledFiles, err
	})
	return errors.Join(err, r.getIn(ctx))
}

// abuseBodies sends requests without their bodies, next to a client that sends complete ones.
func (r *runner) abuseBodies(ctx context.Context) error {
	conns, err := audit.WithholdBodies(ctx, r.server.HTTP, r.abuser.Token, r.size(bodiesSmall, bodiesLarge))
	defer audit.CloseAll(conns)
	if err != nil {
		return err
	}
	body := string(wire.NewTransactions(abuserName).Query("1").Append(nil))
	for n := range bodiesWhole {
		if err := r.must(ctx, "/xml", r.abuser.Token, body); err != nil {
			return fmt.Errorf("with %d requests whose body does not come, whole request %d: %w", len(conns), n+1, err)
		}
	}
	r.abuseNote("%d requests whose body does not come", len(conns))
	return nil
}

// abuseFloods opens and closes connections, some after sending garbage.
func (r *runner) abuseFloods(ctx context.Context) error {
	before, err := r.server.Usage()
	if err != nil {
		return err
	}
	n := r.size(floodSmall, floodLarge)
	err = errors.Join(audit.Flood(ctx, r.server.XML, r.server.HTTP, n), audit.Smuggle(ctx, r.server.HTTP))
	if err != nil {
		return err
	}
	r.abuseNote("%d connections that end at once", n)
	return r.settled(ctx, before)
}

// abuseHosts sends requests that a web page of another host could make a browser send.
func (r *runner) abuseHosts(ctx context.Context) error {
	sent, err := audit.ForeignHosts(ctx, r.server.HTTP, r.Symbols[0])
	r.abuseNote("%d requests of foreign hosts", sent)
	return err
}
