package sweep

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"outcry/internal/load/scenario"
)

// readers are connections that read the market data stream, as open pages do. They
// look at nothing: what they cost is to be the server's.
type readers struct {
	conns   []net.Conn
	running sync.WaitGroup
	leaving atomic.Bool
	bytes   atomic.Uint64
	ended   atomic.Uint64 // by the server
}

// openReaders opens the readers that a run has, one symbol after the other. Each has
// received something when it returns.
func openReaders(ctx context.Context, addr string, p scenario.Params) (*readers, error) {
	r := &readers{}
	for n := range p.Readers {
		if err := r.open(ctx, addr, fmt.Sprintf("/api/v1/stream?sym=SYM%d", n%max(p.Symbols, 1))); err != nil {
			r.leave()
			return nil, fmt.Errorf("sweep: reader %d of the stream: %w", n+1, err)
		}
	}
	return r, nil
}

// open opens one.
func (r *readers) open(ctx context.Context, addr, path string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, c)
	if err := c.SetDeadline(time.Now().Add(upTimeout)); err != nil {
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

func (r *readers) read(c net.Conn) {
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

// leave closes them and waits for their ends. It may be called again.
func (r *readers) leave() {
	r.leaving.Store(true)
	for _, c := range r.conns {
		c.Close()
	}
	r.running.Wait()
}
