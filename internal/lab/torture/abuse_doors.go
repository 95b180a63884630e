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

// The doors of the exchange: connections that do nothing, that end at once, that speak
// garbage; requests without their body, and of a foreign host.

const (
	idleSmall, idleLarge = 500, 20_100 // connections, more than the server has descriptors
	idleBeyond           = 100         // so many more
	ownFiles             = 1000        // descriptors that this process keeps for itself

	segmentTurns = 3000 // orders, within which the journal's segment turns
	settledFiles = 64   // descriptors that may be there in addition when the abuser has left

	bodiesSmall, bodiesLarge = 300, 2000 // requests whose body does not come
	bodiesWhole              = 20        // of another client beside them

	floodSmall, floodLarge = 1000, 10_000 // connections
)

// idleConnections returns how many the abuser opens, as this process's limit allows.
func (r *runner) idleConnections() int {
	n := r.size(idleSmall, idleLarge)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		n = min(n, max(int(min(limit.Cur, 1<<20))-ownFiles, idleSmall))
	}
	return n
}

// abuseFiles holds idle connections of HTTP: XML, the journal and --health must not notice.
// Then it holds idle ones of XML, of which there is an end: those that are there go on.
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

// getIn demands that a new client gets in.
func (r *runner) getIn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, audit.ReplyTimeout)
	defer cancel()
	_, err := audit.Ask(ctx, r.abuser, wire.NewTransactions(abuserName).Query("1").Append(nil))
	return err
}

// askHealth asks as a container does.
func (r *runner) askHealth(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, r.plain, "--health", "--http="+r.server.HTTP, "--data="+r.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("--health: %w: %s", err, out)
	}
	return nil
}

// settled waits until the abuser has left no descriptor, and a new client gets in.
func (r *runner) settled(ctx context.Context, before harness.Usage) error {
	err := r.await(ctx, "the abuser's descriptors are free again", 0, func() (bool, error) {
		now, err := r.server.Usage()
		return now.Files <= before.Files+settledFiles, err
	})
	return errors.Join(err, r.getIn(ctx))
}

// abuseBodies sends requests whose body does not come, beside a client whose does.
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

// abuseFloods connects and leaves, with garbage or without.
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

// abuseHosts sends what a page of another host could have a browser send.
func (r *runner) abuseHosts(ctx context.Context) error {
	sent, err := audit.ForeignHosts(ctx, r.server.HTTP, r.Symbols[0])
	r.abuseNote("%d requests of foreign hosts", sent)
	return err
}
