package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"outcry/internal/auth"
)

// Security says how peers know each other. The zero value trusts everything that reaches
// the port, which is for loopback only: RefuseOpen.
type Security struct {
	// Certificates are those of --peer-cert, --peer-key and --peer-ca, loaded with all
	// three. Whoever loads them runs them, so that new files count. nil is without.
	Certificates *auth.Certificates
}

// nodeName begins the name of a node in a certificate: node-1.
const nodeName = "node-"

// RefuseOpen returns why a node without certificates does not talk with its peers, nil if
// it may: without them all addresses have to be on loopback, as IP addresses or localhost. The
// error names the first node, by number, whose address is not, and the flags that help.
func (s Security) RefuseOpen(addresses map[uint64]string) error {
	if s.Certificates != nil {
		return nil
	}
	for _, node := range slices.Sorted(maps.Keys(addresses)) {
		if !isLoopback(addresses[node]) {
			return fmt.Errorf("peers: the address of node %d, %q, is not on loopback, where anyone on the way can change "+
				"what is sent: give --peer-cert, --peer-key and --peer-ca", node, addresses[node])
		}
	}
	return nil
}

// isLoopback reports whether an address, HOST:PORT, is on this machine whatever a name
// server says.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// CheckName returns an error unless a certificate is that of a node whose address is
// HOST:PORT. A certificate with names such as node-1 is that of these nodes, wherever they
// are. One without is that of every node at a host that it is for, a DNS name or an IP
// address: as certificates of etcd's peers are, and good enough for one node a host.
func CheckName(leaf *x509.Certificate, node uint64, address string) error {
	named := slices.DeleteFunc(slices.Clone(leaf.DNSNames), func(name string) bool { return !isNodeName(name) })
	if len(named) > 0 {
		if !slices.Contains(named, nodeName+strconv.FormatUint(node, 10)) {
			return fmt.Errorf("peers: the certificate is that of %s, and not of node-%d", strings.Join(named, ", "), node)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("peers: the address of node %d: %w", node, err)
	}
	if err := leaf.VerifyHostname(host); err != nil {
		return fmt.Errorf("peers: the certificate names neither node-%d nor the host of its address: %w", node, err)
	}
	return nil
}

func isNodeName(name string) bool {
	number, ok := strings.CutPrefix(name, nodeName)
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 64)
	return err == nil
}

// secure makes the connection one of TLS, where there are certificates, and returns what
// the other side has shown: nil without them. ctx bounds the handshake.
func (s Security) secure(ctx context.Context, conn net.Conn, dials bool) (net.Conn, *x509.Certificate, error) {
	if s.Certificates == nil {
		return conn, nil, nil
	}
	config := s.Certificates.PeerConfig(dials)
	over := tls.Server(conn, config)
	if dials {
		over = tls.Client(conn, config)
	}
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, nil, refusedCertificate(err)
	}
	shown := over.ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return nil, nil, errors.New("peers: the other side shows no certificate")
	}
	return over, shown[0], nil
}

// check returns an error unless the certificate that a connection has shown, if there is
// any, is that of a node.
func (s Security) check(leaf *x509.Certificate, node uint64, address string) error {
	if s.Certificates == nil {
		return nil
	}
	if err := CheckName(leaf, node, address); err != nil {
		return fmt.Errorf("%w: %w", errTrust, err)
	}
	return nil
}

// errTrust is what the error wraps where one side does not trust the other's certificate.
var errTrust = errors.New("peers: a certificate is refused")

// refusedCertificate wraps errTrust around an error that is of certificates: found here, or told by the other side,
// which does so behind the handshake.
func refusedCertificate(err error) error {
	if told, ok := errors.AsType[*net.OpError](err); errors.Is(err, auth.ErrPeer) || ok && told.Op == "remote error" {
		return fmt.Errorf("%w: %w", errTrust, err)
	}
	return err
}
