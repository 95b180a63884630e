package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readerTimeout is how long a reader waits for its first bytes.
const readerTimeout = 2 * time.Minute

// Readers are connections that read the market data stream, as open web pages do. They discard what they
// read, so that almost all their cost is the server's.
type Readers struct {
	conns   []net.Conn
	running sync.WaitGroup
	leaving atomic.Bool
	bytes   atomic.Uint64
	ended   atomic.Uint64 // readers disconnected by the server
}

// OpenReaders opens n readers at the HTTP server at addr. path returns the path that a reader requests.
// OpenReaders returns once each reader has received something. The error contains the server's answer if
// it is not a stream.
func OpenReaders(ctx context.Context, addr string, n int, path func(reader int) string) (*Readers, error) {
	r := &Readers{}
	for n := range n {
		if err := r.open(ctx, addr, path(n)); err != nil {
			r.Leave()
			return nil, fmt.Errorf("load: reader %d of the stream: %w", n+1, err)
		}
	}
	return r, nil
}

// open opens one reader.
func (r *Readers) open(ctx context.Context, addr, path string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, c)
	if err := c.SetDeadline(time.Now().Add(readerTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return err
	}
	const ok = "HTTP/1.1 200 OK\r\n"
	status := make([]byte, len(ok))
	if _, err := io.ReadFull(c, status); err != nil {
		return err
	}
	if string(status) != ok {
		return fmt.Errorf("the server answers %q", status)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	r.running.Go(func() { r.read(c) })
	return nil
}

func (r *Readers) read(c net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.Read(buffer)
		r.bytes.Add(uint64(n))
		if err != nil {
			if !r.leaving.Load() {
				r.ended.Add(1)
			}
			return
		}
	}
}

// Received returns how many bytes all readers have received, and how many readers the server has
// disconnected.
func (r *Readers) Received() (bytes, cut uint64) { return r.bytes.Load(), r.ended.Load() }

// Leave closes the readers and waits until they have ended. It may be called more than once.
func (r *Readers) Leave() {
	r.leaving.Store(true)
	for _, c := range r.conns {
		c.Close()
	}
	r.running.Wait()
}
