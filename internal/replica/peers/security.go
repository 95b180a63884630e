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

// Security configures how peers authenticate each other. The zero value trusts all connections and
// is allowed only on loopback; see RefuseOpen.
type Security struct {
	// Certificates are loaded from --peer-cert, --peer-key and --peer-ca, all of which must be
	// given. The owner must run them so that new files are loaded. nil means no TLS.
	Certificates *auth.Certificates
}

// nodeName is the prefix of a node's name in a certificate, such as node-1.
const nodeName = "node-"

// RefuseOpen returns nil if there are certificates, or if all addresses are on loopback, as IP addresses or localhost.
// Otherwise the error names the first node, by number, whose address is not on loopback, and the flags to set.
func (s Security) RefuseOpen(addresses map[uint64]string) error {
	if s.Certificates != nil {
		return nil
	}
	for _, node := range slices.Sorted(maps.Keys(addresses)) {
		if !isLoopback(addresses[node]) {
			return fmt.Errorf("peers: the address of node %d, %q, is not on loopback, and on the network anyone on the path "+
				"can change "+
				"what is sent: give --peer-cert, --peer-key and --peer-ca", node, addresses[node])
		}
	}
	return nil
}

// isLoopback reports whether an address, HOST:PORT, is on this machine without asking a name
// server.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// CheckName returns an error unless a certificate belongs to the node with an address, HOST:PORT. A
// certificate with names such as node-1 belongs to these nodes, whatever their addresses. A
// certificate without such names belongs to every node on a host that it names, by DNS name or IP
// address. Certificates of etcd's peers are of this kind, and it is sufficient if each host runs
// one node.
func CheckName(leaf *x509.Certificate, node uint64, address string) error {
	named := slices.DeleteFunc(slices.Clone(leaf.DNSNames), func(name string) bool { return !isNodeName(name) })
	if len(named) > 0 {
		if !slices.Contains(named, nodeName+strconv.FormatUint(node, 10)) {
			return fmt.Errorf("peers: the certificate belongs to %s, not to node-%d", strings.Join(named, ", "), node)
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

// secure adds TLS to the connection if there are certificates, and returns the other side's
// certificate. ctx limits the handshake.
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
		return nil, nil, errors.New("peers: the other side presented no certificate")
	}
	return over, shown[0], nil
}

// check returns an error unless leaf belongs to the node. It accepts all nodes if there are no
// certificates.
func (s Security) check(leaf *x509.Certificate, node uint64, address string) error {
	if s.Certificates == nil {
		return nil
	}
	if err := CheckName(leaf, node, address); err != nil {
		return fmt.Errorf("%w: %w", errTrust, err)
	}
	return nil
}

// errTrust is wrapped by errors about a certificate that one side does not trust.
var errTrust = errors.New("peers: a certificate is refused")

// refusedCertificate wraps errTrust around an error about certificates, either found here or
// reported by the other side after the handshake.
func refusedCertificate(err error) error {
	if remote, ok := errors.AsType[*net.OpError](err); errors.Is(err, auth.ErrPeer) || ok && remote.Op == "remote error" {
		return fmt.Errorf("%w: %w", errTrust, err)
	}
	return err
}
