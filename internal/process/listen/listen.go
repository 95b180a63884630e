// Package listen binds addresses some time before it listens on them. A start that would fail because of an
// address must fail before it makes a database, but clients must be refused until it is ready. Package net
// cannot do this.
package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// backlogMax is how many connections may wait to be accepted. The kernel's limit (net.core.somaxconn) is
// usually lower and then applies.
const backlogMax = 1<<16 - 1

// Bound is a bound address. Until Listen is called, clients are refused as if there were no server. It is not
// safe for concurrent use.
type Bound struct {
	Addr net.Addr // has the port that the kernel chose, if 0 was given
	fd   int      // -1 after Listen or Close
}

// Bind binds the address given by a flag. The error names the flag and the address. If the address is in use,
// it also says what to change.
func Bind(flag, address string) (*Bound, error) {
	b, err := tryBind(address)
	if err != nil {
		err = fmt.Errorf("--%s %s: %w", flag, address, err)
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w: another program listens there, or another outcryd: stop it, "+
				"or give another address with --%s", err, flag)
		}
		return nil, err
	}
	return b, nil
}

// Overlap reports whether a program cannot listen on both addresses.
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
	// As in package net: an address can be bound again at once after its server has ended, and two listening
	// servers still exclude each other.
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

// socketFor returns a socket and the address to bind it to. For all addresses, the socket accepts both IPv4
// and IPv6 if the system has IPv6.
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

// newSocket returns a TCP socket that child processes do not inherit.
func newSocket(family int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// Listen starts to listen, and passes the bound socket to the listener; b is unusable afterwards, even after an error.
// An error occurs if another server that was also starting has listened first.
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

// Close releases an address that Listen was not called for. Otherwise, and for a nil Bound, it does nothing.
func (b *Bound) Close() {
	if b != nil && b.fd >= 0 {
		_ = unix.Close(b.fd)
		b.fd = -1
	}
}
