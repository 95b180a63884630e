package remote

import "errors"

// Changes of a cluster that a node is asked for, as POST /admin/cluster/ and this word.
const (
	ChangeTransfer = "transfer" // of the leadership, to Node, or to the furthest standby if that is 0
	ChangeAdd      = "add"      // of a node that learns
	ChangePromote  = "promote"  // of a node that learns to one that votes
	ChangeRemove   = "remove"   // of a node, for good
	ChangeReplace  = "replace"  // of a node that has lost its disk: removed, and added under its number
)

// ClusterChange is the body of such a request, as JSON.
type ClusterChange struct {
	Node    uint64 `json:"node"`
	Address string `json:"address,omitempty"` // HOST:PORT where the other nodes reach it, of ChangeAdd and ChangeReplace
}

// ClusterChanged is the answer: the change is under way, or done. GET /api/v1/cluster shows it.
type ClusterChanged struct {
	Change string `json:"change"`
	ClusterChange
}

// ErrNotLeading says that a node cannot change its cluster: another one leads.
var ErrNotLeading = errors.New("this node does not lead the cluster")
