package remote

// Roles of a node in a cluster.
const (
	RoleLeader   = "leader"   // accepts orders
	RoleStandby  = "standby"  // votes and follows; its state is loaded
	RoleLearner  = "learner"  // follows and does not vote
	RoleStarting = "starting" // stores and votes; its state is not loaded yet
)

// Cluster is a node's view of its cluster: the answer of GET /api/v1/cluster. It reveals nothing about records except
// how many are committed.
type Cluster struct {
	Node    uint64 `json:"node"`
	Role    string `json:"role"`
	Why     string `json:"why,omitempty"`     // why it is still starting, or accepts no orders
	Cluster string `json:"cluster,omitempty"` // id of the cluster in hex; empty before its first leader
	Leader  uint64 `json:"leader"`            // number of the leader; 0 if unknown
	Term    uint64 `json:"term"`
	Seq     uint64 `json:"seq"` // the last committed record that this node has applied
	// Digest is the digest of the state at record DigestSeq, in the form of `outcry verify`. If it is
	// unknown, it is empty and DigestSeq is 0.
	Digest    string   `json:"digest,omitempty"`
	DigestSeq uint64   `json:"digest_seq"`
	Members   []Member `json:"members"` // ascending by number
}

// Member is another node as known to this one. Fields that come from the node's own hello message are empty until that
// message is received.
type Member struct {
	Node    uint64 `json:"node"`
	Learner bool   `json:"learner"`
	// Outside means that the node is named by --peers but is not a member: it was removed, or has not been
	// added yet.
	Outside bool   `json:"outside,omitempty"`
	Peer    string `json:"peer"`             // address at which the other nodes reach it
	Listen  string `json:"listen,omitempty"` // address at which clients reach its XML port while it leads
	HTTP    string `json:"http,omitempty"`
	Version string `json:"version,omitempty"`
	// Active and LagEntries are known only to the leader; other nodes report false and 0.
	Active     bool   `json:"active"`      // has answered recently
	LagEntries uint64 `json:"lag_entries"` // entries of Raft's log that are not yet on its disk
	// Differs lists the settings (tokens and limits) that differ from this node's; empty if none does.
	Differs []string `json:"differs,omitempty"`
}
