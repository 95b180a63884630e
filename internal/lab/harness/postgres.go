package harness

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"outcry/internal/postgres/local"
	"outcry/internal/testing/processes"
)

// Postgres is a separate Postgres cluster behind a proxy. It has production settings: committed data
// survives the death of its processes.
type Postgres struct {
	cluster *local.Cluster
	proxy   *proxy
	url     string // through the proxy
}

// RemoveAll removes the directory of a harness, including the files of its Postgres cluster. The error
// says what could not be removed.
func RemoveAll(dir string) error {
	if err := local.Remove(filepath.Join(dir, "postgres")); err != nil {
		return fmt.Errorf("harness: %w", err)
	}
	return os.RemoveAll(dir)
}

// StartPostgres starts a cluster in dir/postgres.
func StartPostgres(ctx context.Context, dir string) (*Postgres, error) {
	c, err := local.Start(ctx, local.Options{Dir: filepath.Join(dir, "postgres"), Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"shared_buffers": "64MB", "restart_after_crash": "on"}})
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	p := &Postgres{cluster: c}
	if err := p.listen(); err != nil {
		return nil, fmt.Errorf("harness: proxy: %w", err)
	}
	return p, nil
}

func (p *Postgres) listen() error {
	u, err := url.Parse(p.cluster.URL())
	if err != nil {
		return err
	}
	q := u.Query()
	socket := "/.s.PGSQL." + q.Get("port")
	dir, err := os.MkdirTemp("", "outcry-proxy-") // a socket's path must be short
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", dir+socket)
	if err != nil {
		return err
	}
	p.proxy = &proxy{listener: l, dir: dir, upstream: q.Get("host") + socket,
		open: map[net.Conn]bool{}, keep: map[net.Conn]bool{}}
	go p.proxy.serve()
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	p.url = u.String()
	return nil
}

// URL returns the database's address through the proxy.
func (p *Postgres) URL() string { return p.url }

// DirectURL returns the database's address without the proxy.
func (p *Postgres) DirectURL() string { return p.cluster.URL() }

// AdminURL does the same as DirectURL for a superuser.
func (p *Postgres) AdminURL() string { return p.cluster.AdminURL() }

// Kill kills the postmaster. Another one starts by itself and recovers.
func (p *Postgres) Kill() { p.signal(syscall.SIGKILL) }

// Restart ends all connections and stops the postmaster in order. Another one starts by itself.
func (p *Postgres) Restart() { p.signal(syscall.SIGINT) }

func (p *Postgres) signal(s syscall.Signal) {
	if pid := p.cluster.Pid(); pid > 0 {
		_ = syscall.Kill(pid, s) // it may have just ended
	}
}

// Freeze stops every process of the cluster with a signal. thaw resumes them.
func (p *Postgres) Freeze() (thaw func()) {
	thaw, _ = processes.Freeze(p.cluster.Pid())
	return thaw
}

// Slow delays every packet by the given time in both directions. 0 ends the delay.
func (p *Postgres) Slow(by time.Duration) { p.proxy.delay.Store(int64(by)) }

// Cut breaks every connection through the proxy. New connections are possible.
func (p *Postgres) Cut() { p.proxy.cut() }

// Lose breaks every connection through the proxy on the server's side only: to Postgres its sessions look
// alive, as after a network partition. They end with Find or Stop.
func (p *Postgres) Lose() { p.proxy.lose() }

// Find ends the sessions that Lose has kept open.
func (p *Postgres) Find() { p.proxy.find() }

// Stop stops the cluster and the proxy in order.
func (p *Postgres) Stop(ctx context.Context) error {
	p.proxy.close()
	return p.cluster.Stop(ctx)
}

// proxy forwards connections from one Unix socket to another.
type proxy struct {
	listener      net.Listener
	dir, upstream string
	delay         atomic.Int64 // nanoseconds

	mu   sync.Mutex        // guards the fields below
	open map[net.Conn]bool // both ends of each connection; true for the end of the client
	keep map[net.Conn]bool // connections to Postgres that stay open without their clients
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		go p.carry(c)
	}
}

func (p *proxy) carry(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("unix", p.upstream)
	if err != nil {
		return // as if no server were listening
	}
	p.mu.Lock()
	p.open[c], p.open[up] = true, false
	p.mu.Unlock()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
		go func() {
			_, _ = io.Copy(way[0], &delayed{way[1], &p.delay}) // the error does not matter
			ended <- struct{}{}
		}()
	}
	<-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	delete(p.open, up)
	if !p.keep[up] {
		up.Close()
	}
}

// delayed is a connection whose data can be read only some time after it has arrived.
type delayed struct {
	io.Reader
	delay *atomic.Int64
}

func (d *delayed) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	time.Sleep(time.Duration(d.delay.Load()))
	return n, err
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

func (p *proxy) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, isClient := range p.open {
		if isClient {
			c.Close()
		} else {
			p.keep[c] = true
		}
	}
}

func (p *proxy) find() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for up := range p.keep {
		up.Close()
	}
	clear(p.keep)
}

func (p *proxy) close() {
	p.listener.Close()
	p.cut()
	p.find()
	_ = os.RemoveAll(p.dir)
}
