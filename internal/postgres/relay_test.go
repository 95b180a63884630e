package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// relay carries connections between clients and a Postgres, as a network or a pooler does. Its clients connect
// to url.
type relay struct {
	url      string
	upstream string // path of Postgres' socket
	listener net.Listener

	mu    sync.Mutex // guards the fields below
	pairs []*pair
	made  int
}

// pair is a connection through a relay.
type pair struct {
	client, server net.Conn
	frozen         chan struct{} // closed when the pair no longer carries bytes; neither side is notified
	frozenBefore   sync.Once
}

// newRelay carries connections to the Postgres of a URL until the test ends. begin, unless nil, is called for
// each connection first, and reports whether bytes are then carried unchanged.
func newRelay(t *testing.T, database string, begin func(r *relay, p *pair) bool) *relay {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	dir, err := os.MkdirTemp("", "relay-") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := ".s.PGSQL." + q.Get("port")
	r := &relay{upstream: filepath.Join(q.Get("host"), socket)}
	r.listener, err = net.Listen("unix", filepath.Join(dir, socket))
	require.NoError(t, err)
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	r.url = u.String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := r.listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.carry(c, begin) })
		}
	})
	t.Cleanup(func() {
		r.listener.Close()
		r.each(func(p *pair) {
			p.freeze()
			p.client.Close()
			p.server.Close()
		})
		running.Wait()
	})
	return r
}

func (r *relay) dial() (net.Conn, error) { return net.Dial("unix", r.upstream) }

func (r *relay) carry(c net.Conn, begin func(r *relay, p *pair) bool) {
	up, err := r.dial()
	if err != nil {
		c.Close()
		return
	}
	p := &pair{client: c, server: up, frozen: make(chan struct{})}
	r.mu.Lock()
	r.pairs, r.made = append(r.pairs, p), r.made+1
	r.mu.Unlock()
	if begin != nil && !begin(r, p) {
		p.client.Close()
		p.server.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(p.server, p.client) })
	both.Go(func() { p.copy(p.client, p.server) })
	both.Wait()
}

// copy carries bytes one way. If the pair is frozen, it reads and discards them, and does not forward the end of a
// stream.
func (p *pair) copy(to, from net.Conn) {
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		select {
		case <-p.frozen:
			if err != nil {
				return
			}
			continue
		default:
		}
		if err == nil {
			_, err = to.Write(b[:n])
		}
		if err != nil {
			p.client.Close()
			p.server.Close()
			return
		}
	}
}

func (p *pair) freeze() { p.frozenBefore.Do(func() { close(p.frozen) }) }

func (r *relay) each(f func(*pair)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pairs {
		f(p)
	}
}

// connections returns the number of clients that have connected.
func (r *relay) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// startupOf reads a client's startup message.
func startupOf(c net.Conn) (*pgproto3.StartupMessage, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:])-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	m := new(pgproto3.StartupMessage)
	return m, m.Decode(body)
}

// greet sends a startup message to Postgres, and returns the complete response.
func greet(server net.Conn, m *pgproto3.StartupMessage) (answer []byte, err error) {
	hello, err := m.Encode(nil)
	if err == nil {
		_, err = server.Write(hello)
	}
	for err == nil {
		var head [5]byte
		if _, err = io.ReadFull(server, head[:]); err != nil {
			break
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		_, err = io.ReadFull(server, body)
		answer = append(append(answer, head[:]...), body...)
		if head[0] == 'Z' || head[0] == 'E' { // ReadyForQuery, ErrorResponse
			break
		}
	}
	return answer, err
}
