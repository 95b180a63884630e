//go:build !linux

package session

import "net"

// look tells what became of a connection where the system can be asked.
func peerError(net.Conn) error { return nil }
