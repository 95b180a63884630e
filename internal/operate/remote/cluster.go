package remote

// Roles of a node in a cluster.
const (
	RoleLeader   = "leader"   // takes orders
	RoleStandby  = "standby"  // votes, and follows: its state is loaded
	RoleLearner  = "learner"  // follows, and does not vote
	RoleStarting = "starting" // stores and votes, and its state is not loaded yet
)

// Cluster is how a node sees its cluster: the answer of GET /api/v1/cluster. Nothing in it
// says more of records than that so many are committed.
type Cluster struct {
	Node    uint64 `json:"node"`
	Role    string `json:"role"`
	Why     string `json:"why,omitempty"`     // why it starts still, or does not take orders
	Cluster string `json:"cluster,omitempty"` // the cluster's id in hex; empty before its first leader
	Leader  uint64 `json:"leader"`            // 0 while none is known
	Term    uint64 `json:"term"`
	Seq     uint64 `json:"seq"` // of the last committed record that this node has applied
	// Digest is that of the state at record DigestSeq, as `outcry verify` prints it; empty if
	// it is not known, and DigestSeq 0 then.
	Digest    string   `json:"digest,omitempty"`
	DigestSeq uint64   `json:"digest_seq"`
	Members   []Member `json:"members"` // of rising number
}

// Member is a node as another one knows it. What only its own hello says is empty before
// that was heard.
type Member struct {
	Node    uint64 `json:"node"`
	Learner bool   `json:"learner"`
	// Outside says that it is no member: it was removed, or not added yet, and --peers names it.
	Outside bool   `json:"outside,omitempty"`
	Peer    string `json:"peer"`             // where the other nodes reach it
	Listen  string `json:"listen,omitempty"` // where clients reach its XML port while it leads
	HTTP    string `json:"http,omitempty"`
	Version string `json:"version,omitempty"`
	// Active and LagEntries are the leader's to know; others say false and 0.
	Active     bool   `json:"active"`      // has answered lately
	LagEntries uint64 `json:"lag_entries"` // of Raft's log that it does not have on its disk yet
	// Differs says what of its settings differs from this node's, tokens and limits; empty if
	// nothing does.
	Differs []string `json:"differs,omitempty"`
}
