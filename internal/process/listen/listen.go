// Package listen takes addresses before they are listened on: a start that would fail for
// an address must fail before it makes a database, and until it is ready clients are to be
// refused, which package net has no call for.
package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// backlogMax is how many connections may wait to be accepted; the kernel's own limit
// (net.core.somaxconn) is mostly lower and then counts.
const backlogMax = 1<<16 - 1

// Bound is an address that is taken and not listened on yet: until Listen, clients are
// refused, as if there were no server. Not safe for concurrent use.
type Bound struct {
	Addr net.Addr // with the port that the kernel gave for 0
	fd   int      // -1 once Listen or Close was called
}

// Bind takes the address that a flag gives. The error names the flag and the address;
// if the address is in use it says what to change.
func Bind(flag, address string) (*Bound, error) {
	b, err := tryBind(address)
	if err != nil {
		err = fmt.Errorf("--%s %s: %w", flag, address, err)
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w: another program listens there, or another outcryd; end it, "+
				"or give another address with --%s", err, flag)
		}
		return nil, err
	}
	return b, nil
}

// Overlap reports whether two addresses cannot both be listened on.
func Overlap(a, b net.Addr) bool {
	x, y := a.(*net.TCPAddr), b.(*net.TCPAddr)
	return x.Port == y.Port && (x.IP.Equal(y.IP) || x.IP.IsUnspecified() || y.IP.IsUnspecified())
}

func tryBind(address string) (*Bound, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	fd, where, err := socketFor(addr)
	if err != nil {
		return nil, err
	}
	// As package net does: an address can be listened on again at once, and two servers
	// that listen still exclude each other.
	err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, where))
	}
	var taken unix.Sockaddr
	if err == nil {
		taken, err = unix.Getsockname(fd)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	port := 0
	switch taken := taken.(type) {
	case *unix.SockaddrInet4:
		port = taken.Port
	case *unix.SockaddrInet6:
		port = taken.Port
	}
	ip := addr.IP
	if ip == nil {
		ip = net.IPv6unspecified
	}
	return &Bound{&net.TCPAddr{IP: ip, Port: port, Zone: addr.Zone}, fd}, nil
}

// socketFor returns a socket and what to bind it to: for all addresses one of both
// families, if the system has IPv6.
func socketFor(addr *net.TCPAddr) (fd int, where unix.Sockaddr, err error) {
	four, all := addr.IP.To4(), addr.IP == nil || addr.IP.IsUnspecified()
	if all || four == nil {
		six := &unix.SockaddrInet6{Port: addr.Port}
		copy(six.Addr[:], addr.IP.To16())
		if all {
			six.Addr = [16]byte{}
		}
		if addr.Zone != "" {
			in, err := net.InterfaceByName(addr.Zone)
			if err != nil {
				return -1, nil, err
			}
			six.ZoneId = uint32(in.Index)
		}
		fd, err = newSocket(unix.AF_INET6)
		if err == nil && all {
			if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
				_ = unix.Close(fd)
			}
		}
		if err == nil || !all {
			return fd, six, os.NewSyscallError("socket", err)
		}
	}
	v4 := &unix.SockaddrInet4{Port: addr.Port}
	copy(v4.Addr[:], four)
	fd, err = newSocket(unix.AF_INET)
	return fd, v4, os.NewSyscallError("socket", err)
}

// newSocket returns a socket for TCP that no program that is started inherits.
func newSocket(family int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// Listen begins to listen. The address is the listener's from then on, also after an
// error, which says that a server that was starting too was first.
func (b *Bound) Listen() (net.Listener, error) {
	fd := b.fd
	b.fd = -1
	err := os.NewSyscallError("listen", unix.Listen(fd, backlogMax))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", b.Addr, err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close() // the listener has a copy
	return net.FileListener(f)
}

// Close gives up an address that is not listened on. It does nothing otherwise, nor of a
// nil one.
func (b *Bound) Close() {
	if b != nil && b.fd >= 0 {
		_ = unix.Close(b.fd)
		b.fd = -1
	}
}
