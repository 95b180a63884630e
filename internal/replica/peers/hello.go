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

// ProtocolVersion is the version of what peers say to each other behind the preface.
const ProtocolVersion = 1

const (
	magic         = "OUTCRYPR"
	formatVersion = 1
	prefaceBytes  = len(magic) + 4

	// helloBytesMax bounds an opening, with its hello and request, and each answer to it.
	helloBytesMax = 128 << 10
)

// Hello is what a node says of itself, at the beginning of each connection and before
// anything else counts.
type Hello struct {
	Node    uint64        `json:"node"`
	Self    core.Identity `json:"self"`    // of its data/raft
	Cluster core.Identity `json:"cluster"` // zero until a leader has named the cluster
	// Founders are the numbers of the nodes with which it founds a cluster, such as "1,2,3";
	// "" once it knows its cluster, and for a node that waits to be taken in.
	Founders string `json:"founders,omitempty"`

	Version         string `json:"version"`          // of the program
	EventVersion    uint32 `json:"event_version"`    // newest version of records that it reads and writes
	ProtocolVersion uint32 `json:"protocol_version"` // newest that it speaks

	Listen string `json:"listen"` // address that clients use for XML, as advertised
	HTTP   string `json:"http"`   // the same for HTTP

	SegmentBytes int64  `json:"segment_bytes"` // --segment: a larger record might have no room
	TokensHash   string `json:"tokens_hash"`   // of the file of tokens; "" is none
	LimitsHash   string `json:"limits_hash"`   // of the limits and flags that should be alike
}

// Errors that Refuse wraps.
var (
	ErrNumber   = errors.New("peers: the number is taken")
	ErrCluster  = errors.New("peers: another cluster")
	ErrIdentity = errors.New("peers: another identity")
	ErrVersion  = errors.New("peers: the versions do not fit")
	ErrSegment  = errors.New("peers: --segment is too small")
)

// Refuse returns why the node of h should not talk with the node of other, nil if it may:
//   - ErrNumber: other has no number, or that of h.
//   - ErrIdentity: other has no identity, or that of h: its directory is a copy.
//   - ErrCluster: both belong to a cluster, and not to the same, or both found one, and not
//     with the same nodes: two majorities might have no node in common.
//   - ErrVersion: other speaks no version of the protocol. One that reads only older records is
//     not refused here: who is a member has to be known for that.
//   - ErrSegment: a record that fits a segment of h might have no room in one of other.
//
// What differs without harm (the program's version, hashes) is for the status to show. The
// error names both values.
func (h Hello) Refuse(other Hello) error {
	switch {
	case other.Node == 0 || other.Node == h.Node:
		return fmt.Errorf("%w: a peer says that it is node %d, and this is node %d", ErrNumber, other.Node, h.Node)
	case other.Self == core.Identity{} || other.Self == h.Self:
		return fmt.Errorf("%w: node %d has %v, and this node %v: each needs a directory of its own", ErrIdentity, other.Node,
			other.Self, h.Self)
	case other.Cluster != core.Identity{} && h.Cluster != core.Identity{} && other.Cluster != h.Cluster:
		return fmt.Errorf("%w: node %d is of %v, and this node of %v", ErrCluster, other.Node, other.Cluster, h.Cluster)
	case other.Founders != "" && h.Founders != "" && other.Founders != h.Founders:
		return fmt.Errorf("%w: node %d founds one of the nodes %s, and this node of %s: give all the same --peers; "+
			"beside one with records begin with an empty directory and --join",
			ErrCluster, other.Node, other.Founders, h.Founders)
	case other.ProtocolVersion == 0:
		return fmt.Errorf("%w: node %d says that it speaks protocol version 0", ErrVersion, other.Node)
	case other.SegmentBytes < h.SegmentBytes:
		return fmt.Errorf("%w: node %d has %d bytes, and this node %d: give all nodes the same", ErrSegment, other.Node,
			other.SegmentBytes, h.SegmentBytes)
	}
	return nil
}

// RefusedError says that a peer refused this node, or this node a peer.
type RefusedError struct {
	Peer    uint64
	ByPeer  bool   // it refused us; else we refused it
	Removed bool   // it refused us since we were removed from the cluster
	Reason  string // as the refusing side said it
}

// Error returns who refused whom, and why.
func (e *RefusedError) Error() string {
	if e.ByPeer {
		return fmt.Sprintf("node %d refuses this node: %s", e.Peer, e.Reason)
	}
	return fmt.Sprintf("this node refuses node %d: %s", e.Peer, e.Reason)
}

// purpose says what a connection is for.
type purpose string

const (
	forMessages purpose = "messages" // small ones: heartbeats, votes, responses
	forEntries  purpose = "entries"  // appends and snapshots
	forFetch    purpose = "fetch"
	forBackup   purpose = "backup"
	forAsk      purpose = "ask"
)

// link reports whether the connection carries messages of Raft.
func (p purpose) link() bool { return p == forMessages || p == forEntries }

// opening is the first frame of a connection, from the side that made it.
type opening struct {
	To      uint64  `json:"to"`
	For     purpose `json:"for"`
	Hello   Hello   `json:"hello"`
	Request []byte  `json:"request,omitempty"` // of fetch and ask
}

// answer is the frame that follows, from the other side. A refused opening ends with it.
type answer struct {
	Hello   Hello  `json:"hello"`
	Refused string `json:"refused,omitempty"`
	Removed bool   `json:"removed,omitempty"` // refused since it was removed from the cluster
}

// verdict is the frame that follows that, from the first side: what comes behind it counts.
type verdict struct {
	Refused string `json:"refused,omitempty"`
}

// reasonBytesMax bounds the text of a refusal or an error that a peer is told.
const reasonBytesMax = 1 << 10

// reason returns the text of an error as a peer is told it.
func reason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), reasonBytesMax)], "")
}

// sendJSON writes a frame in time, behind prefix.
func sendJSON(conn net.Conn, prefix []byte, v any, patience time.Duration) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(content) > helloBytesMax {
		return fmt.Errorf("peers: an opening of %d bytes, and at most %d may be sent", len(content), helloBytesMax)
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

// receiveJSON reads a frame into v. The caller has set a deadline.
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

// preface returns what a connection begins with.
func preface() []byte { return binary.LittleEndian.AppendUint32([]byte(magic), formatVersion) }

// checkPreface returns an error unless b is the preface of a connection that this program
// can read.
func checkPreface(b []byte) error {
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("%w: it begins with %q", errFrame, b[:len(magic)])
	}
	if v := binary.LittleEndian.Uint32(b[len(magic):]); v != formatVersion {
		return fmt.Errorf("%w: format version %d, and this program speaks %d", ErrVersion, v, formatVersion)
	}
	return nil
}
