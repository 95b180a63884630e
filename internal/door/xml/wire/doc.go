// Package wire is the XML protocol of docs/PROTOCOL.md: frames out of a stream,
// commands out of a frame, a reply out of their results, and the same in the
// other direction for clients. It is pure: no socket, clock or goroutine.
//
// A server reads frames with a FrameReader, decodes each into a Request, has the
// request's commands executed, and appends the reply. A client builds frames with
// Create and Transactions and reads replies with ParseReply.
//
// A frame is decoded in one of two ways. What programs send is read in one pass by a
// scanner, which knows the protocol and next to nothing of XML. Everything else, and
// whatever has a mistake, is read by parseDocument, which knows all of XML and says
// what is wrong. Both come to the same commands and replies for what the scanner
// reads.
package wire
