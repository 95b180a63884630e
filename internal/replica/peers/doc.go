// Package peers connects the nodes of a cluster: it carries Raft's messages between them and serves
// requests of one node to another. It accepts only known peers, and does not interpret the
// messages.
//
// # Connections
//
// Each node makes two connections to each peer and sends its messages there: one for appends and
// snapshots, one for all others, so that a heartbeat does not wait for a record of many megabytes. Each
// request (Fetch, Backup, Ask) has its own connection, which ends with the answer. Numbers are
// little-endian.
//
//	preface   0 magic "OUTCRYPR" · 8 version u32 of the format after it
//	12 bytes
//
//	frame     0 length u32 of the content · 4 CRC-32C of the content · 8 the content
//
// The connecting side sends the preface and an opening (JSON: the node it calls, the purpose, its Hello,
// the request). The other side answers with its Hello or the reason why it refuses. Then the first side
// sends a verdict, which accepts or refuses that Hello. After that follow either frames with one
// raftpb.Message each, in one direction, or the frames of the answer, each of which begins with a tag.
//
// # Authentication
//
// With certificates, both sides speak TLS 1.3 and present a certificate that an authority of --peer-ca
// has signed, that is valid now and for both servers and clients (if it has an extended key usage), and
// that names the node: DNS:node-1 for node 1 or, without such names, the host of its address in --peers
// (see CheckName). Several nodes on one host need names of the first kind. New files apply to new
// connections. Without certificates all addresses must be on loopback.
//
// # Lost messages
//
// Send never waits. It drops a message if there is no connection or no room in the queue. When a
// connection breaks, the messages in its queue are dropped too. Raft repeats what it needs once it learns
// that the peer was unreachable.
package peers
