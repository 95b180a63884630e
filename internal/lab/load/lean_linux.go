package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The lean path: a few goroutines drive all connections with epoll. A request costs one write, a share of
// a read and of a wait, and no goroutine switch, deadline or timer.

const (
	leanEvents   = 128       // connections returned by one wait, at most
	leanRead     = 256 << 10 // size of a read
	leanLook     = 100 * time.Millisecond
	leanLoopsMax = 8 // each loop occupies a thread

	// leanSlack is how late the loop of an open run may wake up. Requests that become due in that time are sent
	// together; the delay is part of their latencies.
	leanSlack = 100 * time.Microsecond
)

// bareConns returns the connections' codecs, or nil if a connection has no plain file descriptor.
func bareConns(conns []link) (all []*coded) {
	for _, c := range conns {
		bare, ok := c.(*coded)
		if !ok {
			return nil
		}
		if _, ok := bare.Conn.(syscall.Conn); !ok {
			return nil
		}
		all = append(all, bare)
	}
	return all
}

// leanConn is a connection of a leanLoop.
type leanConn struct {
	fd     int
	at     int // index in the loop's connections
	number int // number among all connections, from 1
	codec  Codec
	source Source
	out    []byte // bytes that the socket has not accepted yet
	rest   []byte // the beginning of an incomplete reply
	under  []underWay
	first  int  // index in under of the oldest unanswered request
	waits  bool // waiting until the socket accepts more bytes
	gone   bool // sends no more requests
	idle   bool // is in pace.idle
}

// underWay is an unanswered request. Times count from the start of the run.
type underWay struct{ due, sent time.Duration }

func (c *leanConn) owed() int { return len(c.under) - c.first }

// leanLoop drives some of the connections.
type leanLoop struct {
	rec    *Recorder
	lane   *Lane
	ctx    context.Context
	poll   int
	conns  []*leanConn
	depth  int
	buffer []byte
	live   int           // connections that may still send or that await a reply
	looked time.Duration // when look last ran
	ahead  *pace         // set in an open run, else nil
}

// pace is the part of an open run's schedule that one loop sends, with the loop's idle connections.
type pace struct {
	Schedule
	next, step uint64 // number of the loop's next request, and the distance to the one after it
	idle       []*leanConn
}

// lean runs a load over open connections, which it takes over. schedule is nil in the closed model. It
// returns the error of a connection, or ctx's.
func (r *Recorder) lean(ctx context.Context, conns []*coded, source func(int) Source, schedule *Schedule) (
	*Result, error) {
	defer r.Report()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*leanLoop, max(1, min(runtime.GOMAXPROCS(0)/2, len(conns), leanLoopsMax)))
	for i := range all {
		all[i] = &leanLoop{rec: r, ctx: ctx, depth: max(r.options.Depth, 1), buffer: make([]byte, leanRead), lane: r.Lane()}
		if schedule != nil {
			all[i].depth, all[i].lane = 1, r.OpenLane()
			all[i].ahead = &pace{Schedule: *schedule, next: uint64(i), step: uint64(len(all))}
		}
	}
	var taken error
	for n, c := range conns {
		fd, err := detach(c.Conn)
		taken = errors.Join(taken, err)
		l := all[n%len(all)]
		l.conns = append(l.conns, &leanConn{at: len(l.conns), fd: fd, number: n + 1, codec: c.codec})
		defer unix.Close(fd)
	}
	if taken != nil {
		return nil, fmt.Errorf("load: %w", taken)
	}
	var running sync.WaitGroup
	for _, l := range all {
		running.Go(func() {
			for _, c := range l.conns {
				c.source = source(c.number - 1)
			}
			if err := l.run(); err != nil {
				cancel(err)
			}
			l.lane.Flush()
		})
	}
	running.Wait()
	return r.Result(nil), context.Cause(ctx)
}

// detach detaches the file descriptor from a connection, so that Go's poller does not wait on it.
func detach(c net.Conn) (fd int, err error) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err == nil {
		var dupErr error
		err = raw.Control(func(of uintptr) { fd, dupErr = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
		err = errors.Join(err, dupErr)
	}
	return fd, errors.Join(err, c.Close())
}

// run sends and reads until the time is up or the sources are exhausted, and every request has its reply.
func (l *leanLoop) run() (err error) {
	runtime.LockOSThread() // needed to set the thread's timer slack
	defer runtime.UnlockOSThread()
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	defer unix.Close(l.poll)
	for _, c := range l.conns {
		if err := l.watch(unix.EPOLL_CTL_ADD, c, unix.EPOLLIN); err != nil {
			return err
		}
	}
	l.live = len(l.conns)
	for _, c := range l.conns {
		if err := l.sendNext(c, l.now()); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, leanEvents)
	for l.live > 0 {
		n, err := l.wait(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if err := l.ready(l.conns[e.Fd], e.Events); err != nil {
				return err
			}
		}
		if err := errors.Join(l.sendDue(), l.look()); err != nil {
			return err
		}
	}
	return nil
}

func (l *leanLoop) now() time.Duration { return time.Since(l.rec.began) }

// watch sets the events for which a connection is polled.
func (l *leanLoop) watch(op int, c *leanConn, events uint32) error {
	e := unix.EpollEvent{Events: events, Fd: int32(c.at)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.poll, op, c.fd, &e))
}

// wait waits until a connection is ready, a request is due, or leanLook has passed. It returns the number
// of ready connections.
func (l *leanLoop) wait(events []unix.EpollEvent) (n int, err error) {
	most := leanLook
	if p := l.ahead; p != nil && len(p.idle) > 0 && !p.Over(p.next, 0) {
		most = min(most, max(p.Due(p.next)-l.now(), leanSlack))
	}
	t := unix.NsecToTimespec(int64(most))
	r, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.poll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&t)), 0, 0)
	n = int(r)
	if errno != 0 {
		n, err = 0, errno
	}
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.11: millisecond resolution
		n, err = unix.EpollWait(l.poll, events, int((most+time.Millisecond-1)/time.Millisecond))
	}
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, os.NewSyscallError("epoll_pwait2", err)
}

// look makes the infrequent checks: it fails the loop if ctx has ended or a reply is overdue.
func (l *leanLoop) look() error {
	now := l.now()
	if now-l.looked < leanLook {
		return nil
	}
	l.looked = now
	for _, c := range l.conns {
		if c.owed() == 0 || now-c.under[c.first].sent < replyTimeout {
			continue
		}
		err := os.ErrDeadlineExceeded
		if c.waits {
			err = fmt.Errorf("%d unanswered frames; the server does not read %d bytes of them before its replies are read: %w",
				c.owed(), len(c.out), err)
		}
		return c.broken(err)
	}
	return context.Cause(l.ctx)
}

// broken adds the connection's number to an error.
func (c *leanConn) broken(err error) error {
	return fmt.Errorf("load: connection %d: %w", c.number, err)
}

// rawIO reads or writes without notifying Go's scheduler: the descriptor is nonblocking.
func rawIO(call uintptr, fd int, b []byte) (n int, errno syscall.Errno) {
	r, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(r), errno
}

// ready handles a connection's events.
func (l *leanLoop) ready(c *leanConn, events uint32) error {
	if events&unix.EPOLLOUT != 0 {
		if err := l.write(c); err != nil {
			return err
		}
	}
	if events&^unix.EPOLLOUT == 0 {
		return nil
	}
	n, errno := rawIO(unix.SYS_READ, c.fd, l.buffer)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil
	case errno != 0:
		return c.broken(os.NewSyscallError("read", errno))
	case n == 0 && idle(c.codec, c.rest):
		return c.broken(io.EOF)
	case n == 0:
		return c.broken(io.ErrUnexpectedEOF)
	}
	now := l.now()
	if err := l.receive(c, l.buffer[:n], now); err != nil {
		return err
	}
	return l.sendNext(c, now)
}

// receive processes received bytes.
func (l *leanLoop) receive(c *leanConn, in []byte, now time.Duration) error {
	kept := len(c.rest) > 0
	if kept {
		c.rest = append(c.rest, in...)
		in = c.rest
	}
	for len(in) > 0 {
		reply, n, err := c.codec.Cut(in)
		if err != nil {
			return c.broken(err)
		}
		if n == 0 {
			break
		}
		if in = in[n:]; reply == nil {
			continue
		}
		if c.owed() == 0 {
			return c.broken(fmt.Errorf("an unexpected reply: %.200q", reply))
		}
		u := c.under[c.first]
		c.first++
		l.lane.bytesIn += uint64(len(reply))
		l.lane.add(u.due, u.sent, now, c.source.Reply(reply))
	}
	if kept {
		c.rest = c.rest[:copy(c.rest, in)]
	} else {
		c.rest = append(c.rest, in...)
	}
	return nil
}

// sendNext sends the next request on a connection, or marks the connection as idle.
func (l *leanLoop) sendNext(c *leanConn, now time.Duration) error {
	if l.ahead != nil {
		if c.owed() == 0 && !c.idle { // the connection may be idle already if the message was not a reply
			c.idle = true
			l.ahead.idle = append(l.ahead.idle, c)
		}
		return nil
	}
	d := l.rec.options.Duration
	c.gone = c.gone || d > 0 && now >= d
	if c.first > 0 { // reuse the memory
		c.under = c.under[:copy(c.under, c.under[c.first:])]
		c.first = 0
	}
	for !c.gone && c.owed() < l.depth {
		if !l.add(c, underWay{now, now}) {
			c.gone = true
		}
	}
	if c.gone && c.owed() == 0 {
		l.live--
		return l.watch(unix.EPOLL_CTL_DEL, c, 0)
	}
	return l.write(c)
}

// add appends the next request of the connection's source. ok is false if the source has no more.
func (l *leanLoop) add(c *leanConn, u underWay) (ok bool) {
	xml := c.source.Next()
	if xml == nil {
		return false
	}
	c.out = c.codec.Append(c.out, xml)
	l.lane.bytesOut += uint64(len(xml))
	c.under = append(c.under, u)
	return true
}

// write sends as many bytes as the socket accepts.
func (l *leanLoop) write(c *leanConn) error {
	for len(c.out) > 0 {
		n, errno := rawIO(unix.SYS_WRITE, c.fd, c.out)
		switch {
		case errno == unix.EAGAIN && c.waits:
			return nil
		case errno == unix.EAGAIN:
			c.waits = true
			return l.watch(unix.EPOLL_CTL_MOD, c, unix.EPOLLIN|unix.EPOLLOUT)
		case errno == unix.EINTR:
		case errno == unix.EPIPE || errno == unix.ECONNRESET: // the next read returns the reason
			c.out = c.out[:0]
		case errno != 0:
			return c.broken(os.NewSyscallError("write", errno))
		default:
			c.out = c.out[:copy(c.out, c.out[n:])]
		}
	}
	if c.waits {
		c.waits = false
		return l.watch(unix.EPOLL_CTL_MOD, c, unix.EPOLLIN)
	}
	return nil
}

// sendDue sends the requests that are due in an open run over idle connections, the longest idle first.
func (l *leanLoop) sendDue() error {
	p := l.ahead
	if p == nil {
		return nil
	}
	for len(p.idle) > 0 {
		now := l.now()
		if p.Over(p.next, now) {
			if len(p.idle) == len(l.conns) {
				l.live = 0
			}
			return nil
		}
		due := p.Due(p.next)
		if due > now {
			return nil
		}
		c := p.idle[0]
		p.idle, c.idle = p.idle[1:], false
		p.next += p.step
		c.under, c.first = c.under[:0], 0
		if !l.add(c, underWay{due, now}) {
			return c.broken(errDone)
		}
		if err := l.write(c); err != nil {
			return err
		}
	}
	return nil
}
