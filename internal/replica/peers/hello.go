package peers

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"outcry/internal/replica/core"
)

// ProtocolVersion is the version of the protocol after the preface.
const ProtocolVersion = 1

const (
	magic         = "OUTCRYPR"
	formatVersion = 1
	prefaceBytes  = len(magic) + 4

	// helloBytesMax limits an opening, with its hello and request, and each reply to it.
	helloBytesMax = 128 << 10
)

// Hello describes a node. Both sides send one at the beginning of each connection and accept
// nothing else before it.
type Hello struct {
	Node    uint64        `json:"node"`
	Self    core.Identity `json:"self"`    // identity of the node's data/raft
	Cluster core.Identity `json:"cluster"` // zero until a leader has set the cluster's identity
	// Founders lists the nodes with which this node founds a cluster, such as "1,2,3". It is empty
	// once the node knows its cluster, and on a node that waits to be added to one.
	Founders string `json:"founders,omitempty"`

	Version         string `json:"version"`          // version of the program
	EventVersion    uint32 `json:"event_version"`    // newest version of records that the node reads and writes
	ProtocolVersion uint32 `json:"protocol_version"` // newest version of the protocol that the node speaks

	Listen string `json:"listen"` // advertised address at which clients use XML
	HTTP   string `json:"http"`   // advertised address at which clients use HTTP

	SegmentBytes int64  `json:"segment_bytes"` // value of --segment, which limits the size of a record
	TokensHash   string `json:"tokens_hash"`   // hash of the tokens file; "" if the node has none
	// LimitsHash is the hash of the limits and flags that should be equal on all nodes.
	LimitsHash string `json:"limits_hash"`
}

// Errors that are wrapped by the error of Refuse.
var (
	ErrNumber   = errors.New("peers: wrong node number")
	ErrCluster  = errors.New("peers: different cluster")
	ErrIdentity = errors.New("peers: wrong identity")
	ErrVersion  = errors.New("peers: incompatible versions")
	ErrSegment  = errors.New("peers: --segment is too small")
)

// Refuse returns an error if the node of h should not talk to the node of other, and nil if it may:
//   - ErrNumber: other has no number, or the same as h.
//   - ErrIdentity: other has no identity, or the same as h because its directory is a copy.
//   - ErrCluster: both belong to clusters, but to different ones; or both found a cluster, but with
//     different nodes, so that two majorities could have no node in common.
//   - ErrVersion: other speaks no version of the protocol. Refuse does not check which records other can
//     read, since that check needs to know the members.
//   - ErrSegment: a record that fits a segment of h may not fit one of other.
//
// Harmless differences (the program's version, hashes) are only shown in the status. The error names both
// values.
func (h Hello) Refuse(other Hello) error {
	switch {
	case other.Node == 0 || other.Node == h.Node:
		return fmt.Errorf("%w: a peer says that it is node %d, but this is node %d", ErrNumber, other.Node, h.Node)
	case other.Self == core.Identity{} || other.Self == h.Self:
		return fmt.Errorf("%w: node %d has %v and this node %v: each node needs its own data directory", ErrIdentity,
			other.Node, other.Self, h.Self)
	case other.Cluster != core.Identity{} && h.Cluster != core.Identity{} && other.Cluster != h.Cluster:
		return fmt.Errorf("%w: node %d belongs to %v, but this node to %v", ErrCluster, other.Node, other.Cluster, h.Cluster)
	case other.Founders != "" && h.Founders != "" && other.Founders != h.Founders:
		return fmt.Errorf("%w: node %d founds a cluster of the nodes %s, but this node of %s: give all nodes the same "+
			"--peers; to join a node that has records, start with an empty directory and --join",
			ErrCluster, other.Node, other.Founders, h.Founders)
	case other.ProtocolVersion == 0:
		return fmt.Errorf("%w: node %d says that it speaks protocol version 0", ErrVersion, other.Node)
	case other.SegmentBytes < h.SegmentBytes:
		return fmt.Errorf("%w: node %d has %d bytes, but this node %d: give all nodes the same --segment", ErrSegment,
			other.Node, other.SegmentBytes, h.SegmentBytes)
	}
	return nil
}

// RefusedError reports that a peer refused this node, or that this node refused a peer.
type RefusedError struct {
	Peer    uint64
	ByPeer  bool   // the peer refused this node; otherwise this node refused the peer
	Removed bool   // the peer refused this node because this node was removed from the cluster
	Reason  string // reason given by the refusing side
}

// Error returns which side refused the other, and the reason.
func (e *RefusedError) Error() string {
	if e.ByPeer {
		return fmt.Sprintf("node %d refuses this node: %s", e.Peer, e.Reason)
	}
	return fmt.Sprintf("this node refuses node %d: %s", e.Peer, e.Reason)
}

// purpose is the use of a connection.
type purpose string

const (
	forMessages purpose = "messages" // small messages: heartbeats, votes, responses
	forEntries  purpose = "entries"  // appends and snapshots
	forFetch    purpose = "fetch"
	forBackup   purpose = "backup"
	forAsk      purpose = "ask"
)

// link reports whether the connection carries Raft's messages.
func (p purpose) link() bool { return p == forMessages || p == forEntries }

// opening is the first frame of a connection, sent by the connecting side.
type opening struct {
	To      uint64  `json:"to"`
	For     purpose `json:"for"`
	Hello   Hello   `json:"hello"`
	Request []byte  `json:"request,omitempty"` // set for fetch and ask
}

// answer is the reply to an opening. If it refuses the opening, the connection ends with it.
type answer struct {
	Hello   Hello  `json:"hello"`
	Refused string `json:"refused,omitempty"`
	// Removed is set if the node was refused because it was removed from the cluster.
	Removed bool `json:"removed,omitempty"`
}

// verdict is the connecting side's reply to the answer. If it does not refuse, the content of the
// connection follows.
type verdict struct {
	Refused string `json:"refused,omitempty"`
}

// reasonBytesMax limits the text of a refusal or an error sent to a peer.
const reasonBytesMax = 1 << 10

// reason returns the text of an error for a peer, cut to reasonBytesMax.
func reason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), reasonBytesMax)], "")
}

// sendJSON writes prefix and a frame with v as JSON. The write fails if it takes longer than
// patience.
func sendJSON(conn net.Conn, prefix []byte, v any, patience time.Duration) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(content) > helloBytesMax {
		return fmt.Errorf("peers: a handshake frame has %d bytes, more than %d", len(content), helloBytesMax)
	}
	at := len(prefix)
	b := append(beginFrame(prefix), content...)
	endFrame(b, at)
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = conn.Write(b)
	return err
}

// receiveJSON reads a frame with JSON into v. Callers set a deadline first.
func receiveJSON(f *frameReader, v any) error {
	content, err := f.next(helloBytesMax)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

// preface returns the first bytes of a connection.
func preface() []byte { return binary.LittleEndian.AppendUint32([]byte(magic), formatVersion) }

// checkPreface returns an error unless b is the preface of a format that this program can read.
func checkPreface(b []byte) error {
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("%w: it begins with %q", errFrame, b[:len(magic)])
	}
	if v := binary.LittleEndian.Uint32(b[len(magic):]); v != formatVersion {
		return fmt.Errorf("%w: format version %d, but this program speaks version %d", ErrVersion, v, formatVersion)
	}
	return nil
}
