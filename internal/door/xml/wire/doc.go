// Package wire implements the XML protocol of docs/PROTOCOL.md. For servers it reads frames from a
// stream, decodes a frame into commands, and encodes their results as a reply. For clients it builds
// frames and parses replies. It is pure: it uses no socket, clock or goroutine.
//
// A server reads frames with a FrameReader, decodes each into a Request, executes the request's
// commands, and appends the reply. A client builds frames with Create and Transactions and parses
// replies with ParseReply.
//
// There are two decoders. The scanner reads the form of XML that programs usually send, in one pass; it
// knows the protocol but very little of XML. Frames in any other form and all frames with mistakes are
// read by parseDocument, which knows all of XML and reports what is wrong. For every frame that
// the scanner accepts, both decoders produce the same commands and replies.
package wire
