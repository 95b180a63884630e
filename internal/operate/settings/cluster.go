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

	// peersMax bounds how many nodes --peers names: some of them may be on their way in or out.
	peersMax = 16

	// memberSegmentMax bounds --segment of a member: a record fits into a segment, and has
	// to fit into a message to the other nodes as well.
	memberSegmentMax = 64 << 20
)

// AgainVariable is how a node's process that begins again, since it has lost its leadership,
// tells its next run of the ones before.
const AgainVariable = "OUTCRY_BEGAN_AGAIN"

// Peers are the nodes of a cluster, by their numbers: where they reach each other, as
// HOST:PORT. None means that there is no cluster.
type Peers map[uint64]string

// UnmarshalText reads 1=HOST:PORT,2=HOST:PORT. The error names the entry that is wrong.
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
				return fmt.Errorf("%q: that is the address of node %d too", entry, other)
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

// peerAddress checks the address of a node: others connect to it, so nothing is left out.
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

// MarshalText returns what UnmarshalText reads, in the order of the numbers.
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

// checkCluster returns a *settingError for the first setting of a cluster that is invalid,
// and warns of a number of nodes that is no better than one less.
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
		return wrong("segment", "%d: must be at most %d in a cluster: a record has to fit into a message",
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

// checkAlone refuses settings of a cluster without one.
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

// peersText returns the nodes as --peers has them.
func (c *Config) peersText() string {
	text, _ := c.Peers.MarshalText() // never fails
	return string(text)
}

// isLoopback reports whether an address is on this machine by what it says: a name other
// than localhost is not looked up, as it may mean another machine tomorrow.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// LimitsHash stands for the settings that should be alike on all nodes of a cluster, since
// each of them may lead: who may do what, and what bounds clients. It is short, for people
// to compare.
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

// alike are the flags that LimitsHash stands for beside those of reloadable parts.
var alike = []string{"auth", "bare-replies", "max-frame", "max-reply"}
