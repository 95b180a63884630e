package remote

import "errors"

// Changes of a cluster. Each is requested by POST /admin/cluster/ and its word.
const (
	ChangeTransfer = "transfer" // transfer the leadership to Node; if that is 0, to the standby with the most entries
	ChangeAdd      = "add"      // add a node as a learner
	ChangePromote  = "promote"  // make a learner a voter
	ChangeRemove   = "remove"   // remove a node for good
	ChangeReplace  = "replace"  // replace a node that lost its disk: remove it, and add it again under its number
)

// ClusterChange is the body of a request for a change, as JSON.
type ClusterChange struct {
	Node uint64 `json:"node"`
	// HOST:PORT where the other nodes reach it; for ChangeAdd and ChangeReplace
	Address string `json:"address,omitempty"`
}

// ClusterChanged is the answer to a Change that has begun or is complete; GET /api/v1/cluster shows which.
type ClusterChanged struct {
	Change string `json:"change"`
	ClusterChange
}

// ErrNotLeading means that a node cannot change its cluster because it is not the leader.
var ErrNotLeading = errors.New("this node does not lead the cluster")
