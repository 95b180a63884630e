package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits of a cluster.
const (
	// NodeMax is the highest number of a node.
	NodeMax = 1 << 16

	// peersMax bounds the nodes in --peers, some of which may not have joined yet or be about to leave.
	peersMax = 16

	// memberSegmentMax bounds --segment of a cluster node: a record may be as large as a segment, and must
	// fit into a message to the other nodes.
	memberSegmentMax = 64 << 20
)

// AgainVariable is an environment variable. A node that has lost the leadership restarts its process, and informs
// the new run of the earlier ones in this variable.
const AgainVariable = "OUTCRY_BEGAN_AGAIN"

// Peers maps the numbers of a cluster's nodes to the addresses, HOST:PORT, at which they reach each other. It
// is empty without a cluster.
type Peers map[uint64]string

// UnmarshalText parses 1=HOST:PORT,2=HOST:PORT. The error names the malformed entry.
func (p *Peers) UnmarshalText(text []byte) error {
	all := make(Peers)
	for entry := range strings.SplitSeq(string(text), ",") {
		if len(text) == 0 {
			break
		}
		number, address, ok := strings.Cut(strings.TrimSpace(entry), "=")
		id, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || id < 1 || id > NodeMax || strconv.FormatUint(id, 10) != number {
			return fmt.Errorf("%q: must be N=HOST:PORT, with N from 1 to %d", entry, NodeMax)
		}
		whole, err := peerAddress(address)
		if err != nil {
			return fmt.Errorf("%q: %w", entry, err)
		}
		if all[id] != "" {
			return fmt.Errorf("%q: node %d is named twice", entry, id)
		}
		for other, taken := range all {
			if taken == whole {
				return fmt.Errorf("%q: this is also the address of node %d", entry, other)
			}
		}
		all[id] = whole
	}
	if len(all) > peersMax {
		return fmt.Errorf("%d nodes: must be at most %d", len(all), peersMax)
	}
	*p = all
	return nil
}

// peerAddress checks the address of a node. Other nodes connect to it, so it must have both a host and a
// port.
func peerAddress(text string) (string, error) {
	whole, err := Address(text, "0")
	if err != nil {
		return "", err
	}
	switch host, port, _ := net.SplitHostPort(whole); {
	case port == "0":
		return "", errors.New("the port is missing: must be HOST:PORT")
	case host == "":
		return "", errors.New("the host is missing: must be HOST:PORT")
	}
	return whole, nil
}

// MarshalText returns the text that UnmarshalText parses, ordered by number.
func (p Peers) MarshalText() ([]byte, error) {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(p)) {
		all = append(all, fmt.Sprintf("%d=%s", id, p[id]))
	}
	return []byte(strings.Join(all, ",")), nil
}

// Clustered reports whether the server is a node of a cluster.
func (c *Config) Clustered() bool { return len(c.Peers) > 0 }

// RaftDir returns the directory of the Raft log of a node.
func (c *Config) RaftDir() string { return filepath.Join(c.Data, "raft") }

// checkCluster returns a *settingError for the first invalid setting of a cluster. It adds a warning for an
// even number of nodes, which survives no more failures than one node less.
func (c *Config) checkCluster() error {
	if !c.Clustered() {
		return c.checkAlone()
	}
	nodes := len(c.Peers)
	switch {
	case c.Node == 0:
		return wrong("peers", "%q: --node is needed as well, the number of this node", c.peersText())
	case c.Peers[uint64(c.Node)] == "":
		return wrong("node", "%d: is not in --peers %s", c.Node, c.peersText())
	case c.Ack == AckPostgres:
		return wrong("ack", "%q: in a cluster a reply waits for a majority of the nodes, and for no Postgres; "+
			"leave --ack out, or --peers", c.Ack)
	case c.SegmentBytes > memberSegmentMax:
		return wrong("segment", "%d: must be at most %d in a cluster: a record must fit into a message",
			c.SegmentBytes, memberSegmentMax)
	case (c.PeerCert == "") != (c.PeerKey == "") || (c.PeerCert == "") != (c.PeerCA == ""):
		return wrong("peer-cert", "%q, --peer-key %q, --peer-ca %q: all three are needed, or none",
			c.PeerCert, c.PeerKey, c.PeerCA)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Peers)) {
		if c.PeerCert == "" && !isLoopback(c.Peers[id]) {
			return wrong("peers", "%d=%s: is beyond this machine, so nodes need certificates: "+
				"--peer-cert, --peer-key and --peer-ca", id, c.Peers[id])
		}
	}
	if nodes%2 == 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("--peers: %d nodes survive no more failures than %d nodes do: "+
			"3 or 5 are best", nodes, nodes-1))
	}
	return nil
}

// checkAlone returns a *settingError if a setting of a cluster is given without a cluster.
func (c *Config) checkAlone() error {
	if c.Join {
		return wrong("join", "is for a node of a cluster; --node and --peers are needed as well")
	}
	if c.Node != 0 {
		return wrong("node", "%d: --peers is needed as well, the addresses of all nodes", c.Node)
	}
	for _, s := range []struct{ flag, value string }{
		{"peer-cert", c.PeerCert}, {"peer-key", c.PeerKey}, {"peer-ca", c.PeerCA},
		{"advertise-listen", c.AdvertiseListen}, {"advertise-http", c.AdvertiseHTTP},
	} {
		if s.value != "" {
			return wrong(s.flag, "%q: is for a node of a cluster; --node and --peers are needed as well", s.value)
		}
	}
	return nil
}

// peersText returns the nodes in the form of --peers.
func (c *Config) peersText() string {
	text, _ := c.Peers.MarshalText() // never returns an error
	return string(text)
}

// isLoopback reports whether an address is on this machine, without looking up names: a name other than
// localhost could resolve to another machine later.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// LimitsHash returns a short hash of the settings that should be equal on all nodes of a cluster, since each
// may become the leader: the permissions and limits of clients. Operators can compare it.
func (c *Config) LimitsHash() string {
	h := sha256.New()
	for i := range table {
		r := &table[i]
		if r.reload == Engine || r.reload == Rates || slices.Contains(alike, r.flag) {
			fmt.Fprintf(h, "%s=%s\n", r.flag, c.settings[r.flag].value)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// alike lists the flags that LimitsHash includes in addition to those of the parts Engine and Rates.
var alike = []string{"auth", "bare-replies", "max-frame", "max-reply"}
