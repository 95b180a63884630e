package dialect

import (
	"context"
	"io"
	"net"
	"sync"
)

// inbox reads a connection ahead of its consumer, so that the server never blocks on a reply that is
// not received yet. It has one goroutine, which ends with stop.
type inbox struct {
	conn net.Conn
	wake chan struct{} // capacity 1: signaled when data or an error arrived
	room chan struct{} // capacity 1: signaled when data was taken
	quit chan struct{} // closed by stop
	done chan struct{} // closed when the goroutine has ended

	mu   sync.Mutex
	data []byte // guarded by mu; at most unreadMax plus one read
	err  error  // guarded by mu; the reason why reading ended, nil while it continues
}

// readSize is how many bytes one read asks for.
const readSize = 16 << 10

func newInbox(conn net.Conn) *inbox {
	in := &inbox{conn: conn, wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
	go in.run()
	return in
}

// run reads until the connection ends or stop is called.
func (in *inbox) run() {
	defer close(in.done)
	buffer := make([]byte, readSize)
	for {
		n, err := in.conn.Read(buffer)
		in.mu.Lock()
		in.data = append(in.data, buffer[:n]...)
		in.err = err
		full := len(in.data) >= unreadMax
		in.mu.Unlock()
		signal(in.wake)
		if err != nil {
			return
		}
		for full {
			select {
			case <-in.room:
			case <-in.quit:
				return
			}
			in.mu.Lock()
			full = len(in.data) >= unreadMax
			in.mu.Unlock()
		}
	}
}

// next waits for data until ctx ends, and returns all bytes that have arrived, at least one. The error is a
// *Broken, TimedOut or Closed. Once ctx has ended, next fails even if there are bytes.
func (in *inbox) next(ctx context.Context) ([]byte, error) {
	for {
		if ctx.Err() != nil {
			return nil, &Broken{Kind: TimedOut}
		}
		in.mu.Lock()
		data, err := in.data, in.err
		in.data = nil
		in.mu.Unlock()
		switch {
		case len(data) > 0:
			signal(in.room)
			return data, nil
		case err == io.EOF:
			return nil, &Broken{Kind: Closed}
		case err != nil:
			return nil, &Broken{Kind: Closed, Err: err}
		}
		select {
		case <-in.wake:
		case <-ctx.Done():
		}
	}
}

// stop closes the connection, and returns when the goroutine has ended. A connection that the server
// closed first is reset; otherwise it would stay in the kernel for a minute, and a server that does
// not set SO_REUSEADDR could not be started again.
func (in *inbox) stop() {
	close(in.quit)
	in.mu.Lock()
	closed := in.err == io.EOF
	in.mu.Unlock()
	if tcp, ok := in.conn.(*net.TCPConn); ok && closed {
		_ = tcp.SetLinger(0) // it fails if the connection is reset already
	}
	in.conn.Close()
	<-in.done
}

// signal puts a value in a channel of capacity 1, unless it holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
