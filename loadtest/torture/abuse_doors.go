package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"outcry/internal/check"
	"outcry/internal/wire"
	"outcry/loadtest/harness"
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
	floodAtOnce            = 8
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

// holdIdle opens connections to addr that send what is given and nothing more, and read nothing.
func holdIdle(ctx context.Context, addr, send string, n int) (conns []net.Conn, err error) {
	var d net.Dialer
	for range n {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return conns, fmt.Errorf("torture: the abuser's connection %d: %w", len(conns), err)
		}
		conns = append(conns, c)
		_, _ = c.Write([]byte(send)) // a server that is full may have closed it
	}
	return conns, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// abuseFiles holds idle connections of HTTP: XML, the journal and --health must not notice.
// Then it holds idle ones of XML, of which there is an end: those that are there go on.
func (r *runner) abuseFiles(ctx context.Context) error {
	before, err := r.server.Usage()
	if err != nil {
		return err
	}
	n := r.idleConnections()
	conns, err := holdIdle(ctx, r.server.HTTP, "GET / HTTP/1.1\r\nHost: "+r.server.HTTP+"\r\n\r\n", n)
	defer func() { closeAll(conns) }()
	if err == nil {
		err = r.getIn(ctx)
	}
	if err == nil {
		err = r.turnSegment(ctx)
	}
	if err == nil {
		err = r.askHealth(ctx)
	}
	if err != nil {
		return fmt.Errorf("with %d idle connections of HTTP: %w", len(conns), err)
	}
	closeAll(conns)
	r.End.Full.Store(true)
	idle, err := holdIdle(ctx, r.server.XML, "", n)
	defer func() { closeAll(idle) }()
	if err == nil {
		err = r.turnSegment(ctx)
	}
	if err == nil {
		err = r.askHealth(ctx)
	}
	if err != nil {
		return fmt.Errorf("with %d idle connections of XML: %w", len(idle), err)
	}
	closeAll(idle)
	r.abuseNote("%d idle connections of HTTP, then of XML, of %d descriptors", n, r.files)
	return r.settled(ctx, before)
}

// turnSegment waits until traders have filled a segment of the journal.
func (r *runner) turnSegment(ctx context.Context) error {
	enough := r.Answered() + segmentTurns
	return r.await(ctx, "the journal goes on", func() (bool, error) { return r.Answered() >= enough, nil })
}

// getIn demands that a new client gets in.
func (r *runner) getIn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, check.ReplyTimeout)
	defer cancel()
	_, err := check.Ask(ctx, r.abuser, wire.NewTransactions(abuserName).Query("1").Append(nil))
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
	err := r.await(ctx, "the abuser's descriptors are free again", func() (bool, error) {
		now, err := r.server.Usage()
		return now.Files <= before.Files+settledFiles, err
	})
	return errors.Join(err, r.getIn(ctx))
}

// abuseBodies sends requests whose body does not come, beside a client whose does.
func (r *runner) abuseBodies(ctx context.Context) error {
	head := "POST /xml HTTP/1.1\r\nHost: " + r.server.HTTP + "\r\nContent-Length: 100\r\nExpect: 100-continue\r\n"
	if r.abuser.Token != "" {
		head += "Authorization: Bearer " + r.abuser.Token + "\r\n"
	}
	conns, err := holdIdle(ctx, r.server.HTTP, head+"\r\n", r.size(bodiesSmall, bodiesLarge))
	defer func() { closeAll(conns) }()
	if err != nil {
		return err
	}
	for _, c := range conns { // once it is told to go on, or refused, the exchange has seen the request
		if err := c.SetReadDeadline(time.Now().Add(check.ReplyTimeout)); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) { // it may also be closed
			return errors.New("a request without its body has no answer, and its connection stays")
		}
	}
	body := string(wire.NewTransactions(abuserName).Query("1").Append(nil))
	for n := range bodiesWhole {
		status, answer, err := r.askHTTP(ctx, http.MethodPost, "/xml", r.abuser.Token, body)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, answer)
		}
		if err != nil {
			return fmt.Errorf("with %d requests whose body does not come, whole request %d: %w", len(conns), n+1, err)
		}
	}
	r.abuseNote("%d requests whose body does not come", len(conns))
	return nil
}

// Garbage on the XML port: a handshake of TLS, numbers that are none, a frame that never ends.
var garbage = []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "99999999999999999999\n", "-1\n", "12x\n", "\x00", "500000\n<create>"}

// Requests that two readers may see the end of at two places. Nothing of them may be done.
var smuggled = []string{
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 80\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding : chunked\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
	"POST /xml HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.2\r\nContent-Length: 80\r\n\r\n",
}

const smuggledBody = `<create><account id="666" balance="1"/></create>`

// abuseFloods connects and leaves, with garbage or without.
func (r *runner) abuseFloods(ctx context.Context) error {
	before, err := r.server.Usage()
	if err != nil {
		return err
	}
	n := r.size(floodSmall, floodLarge)
	err = atOnce(floodAtOnce, func(worker int) error {
		for i := worker; i < n; i += floodAtOnce {
			addr, send := r.server.XML, ""
			switch i % 4 {
			case 1:
				addr = r.server.HTTP
			case 2:
				send = garbage[i/4%len(garbage)]
			case 3:
				addr, send = r.server.HTTP, garbage[i/4%len(garbage)]
			}
			conns, err := holdIdle(ctx, addr, send, 1)
			closeAll(conns)
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, head := range smuggled {
		err = errors.Join(err, r.smuggle(ctx, head+smuggledBody))
	}
	if err != nil {
		return err
	}
	r.abuseNote("%d connections that end at once", n)
	return r.settled(ctx, before)
}

// smuggle demands that a request is refused, and its connection closed.
func (r *runner) smuggle(ctx context.Context, request string) error {
	conns, err := holdIdle(ctx, r.server.HTTP, request, 1)
	defer func() { closeAll(conns) }()
	if err != nil {
		return err
	}
	if err := conns[0].SetReadDeadline(time.Now().Add(check.ReplyTimeout)); err != nil {
		return err
	}
	reply, err := http.ReadResponse(bufio.NewReader(conns[0]), nil)
	if err != nil {
		return fmt.Errorf("a request with two ends: %q: %w", request, err)
	}
	defer reply.Body.Close()
	return judgeSmuggled(reply, request)
}

func judgeSmuggled(reply *http.Response, request string) error {
	if reply.StatusCode < 400 || !reply.Close {
		return fmt.Errorf("a request with two ends is answered with %s: %q", reply.Status, request)
	}
	return nil
}

// abuseHosts sends what a page of another host could have a browser send, after DNS rebinding.
func (r *runner) abuseHosts(ctx context.Context) error {
	requests := []string{"GET /admin/status", "PUT /loglevel", "POST /admin/halt?sym=" + r.Symbols[0], "GET /debug/pprof/heap", "POST /xml", "GET /"}
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "evil"} {
		for _, request := range requests {
			method, path, _ := strings.Cut(request, " ")
			q, err := http.NewRequestWithContext(ctx, method, "http://"+r.server.HTTP+path, strings.NewReader(smuggledBody))
			if err != nil {
				return fmt.Errorf("torture: %w", err)
			}
			q.Host = host
			reply, err := http.DefaultClient.Do(q)
			if err != nil {
				return fmt.Errorf("torture: %s of host %s: %w", request, host, err)
			}
			reply.Body.Close()
			if reply.StatusCode != http.StatusForbidden && reply.StatusCode != http.StatusMisdirectedRequest {
				return fmt.Errorf("%s of host %s is answered with %s", request, host, reply.Status)
			}
		}
	}
	r.abuseNote("%d requests of foreign hosts", 5*len(requests))
	return nil
}
