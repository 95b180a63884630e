// Package peers connects the nodes of a cluster: it carries Raft's messages between them,
// and serves requests of one node to another. It knows who its peers are and lets nobody
// else in; what the messages mean is for others.
//
// # Connections
//
// Each node makes two connections to each peer and sends its messages there: one for
// appends and snapshots, one for all others. So a heartbeat does not wait behind a record of
// many megabytes. A request (Fetch, Backup, Ask) has a connection of its own, which ends
// with the answer. Numbers are little-endian.
//
//	preface   0 magic "OUTCRYPR" · 8 version u32, of what follows
//	12 bytes
//
//	frame     0 length u32 of the content · 4 CRC-32C of the content · 8 the content
//
// The side that connects sends the preface and an opening (JSON: whom it calls, what for, its
// Hello, the request), the other side answers with its Hello or why it refuses, and
// the first side says whether it accepts that. Only what comes then counts: frames with one
// raftpb.Message each, in one direction; or the answer, frames that begin with a tag.
//
// # Who gets in
//
// With certificates, both sides speak TLS 1.3 and show one that an authority of --peer-ca
// vouches for, good now, for servers and for clients (extended key usage, if it has any),
// and that names the node: DNS:node-1 for node 1, or, without such names, the host of its
// address in --peers (see CheckName). Several nodes on one host need the former. New files
// count for new connections. Without certificates all addresses are on loopback.
//
// # What is lost
//
// Send never waits. A message that finds no connection, or no room in the queue, is
// dropped; when a connection breaks, what waits is dropped too. Raft repeats what matters,
// once it is told that the peer was unreachable.
package peers
