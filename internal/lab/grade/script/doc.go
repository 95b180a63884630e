// Package script plays the cases by which a server is graded. A case is a conversation with the required
// answers, the rule of the protocol that it tests, and a sentence that states what must hold.
//
// # A case
//
// A case is a file GROUP/NAME.case: a header, then the conversation. A line that begins with # is a
// comment. A line that begins with a blank continues the line above it; in a conversation, the two are
// joined without a blank.
//
//	case    matching/time-priority-sells
//	rule    transactions, Matching
//	tell    An order at the same price that came first must execute first.
//	points  2
//	>  <create><account id="{b}" balance="100000"/><account id="{s}" balance="1"/>
//	   <symbol sym="{S}"><account id="{s}">100</account></symbol></create>
//	<  <created/><created/><created/>
//	>  <transactions id="{s}"><order sym="{S}" amount="-10" limit="10"/></transactions>
//	<  <opened id="$1"/>
//
// # Header
//
// case, rule and tell are required. Optional are points (1), risk (0, to 9: cases that may bring a server
// down are played late), time (10, in seconds), hidden (no) and parts (none). In all of them except tell,
// # begins a comment. "parts 8 16 32" plays the conversation once for each value, which replaces {part};
// the case is worth the share of its parts that pass. A case of the group form has no conversation: it
// fails if its fault of form was seen in any other case.
//
// # Lines
//
//	>  DOC       sends the document as a frame; 2> sends it on connection 2, which is made if it is new
//	>| BYTES     sends bytes, with the escapes \n \r \t \0 \\ \xFF. In them, {frame DOC} is the frame of a
//	             document in the server's habits; {crlf DOC} has CR LF after the length; {cut DOC} is a frame
//	             that ends in the middle of its document
//	<  WANT      the next reply must have these answers (the children of its root) in this order; 2< is for
//	             connection 2. An empty WANT is a reply without answers, * is any reply
//	<|           the server must close the connection; it may first send one reply of errors
//	| VERB ARGS  does something else; 2| does it to connection 2; docs/reference/CASES.md has all verbs
//	? FACT       tests a fact by what the server rejects and accepts: ? cash b 850, ? shares b S 15
//
// A frame need not be well-formed. A reply that no line wants is not checked. A case fails at the first
// line that does not hold.
//
// # What is compared
//
// Answers must match in number, order and tag. Attributes that WANT names must be equal: as numbers if
// both are numbers, and shares without their sign. The value "*" matches any value, but the attribute must
// be there. <any/> matches any answer. Attributes that WANT does not name, and texts, are not compared, nor
// are the children of an answer if WANT names none. If WANT names some, the set must be the same, in any
// order; children without shares (<open shares="0"/>) do not count, since the group form checks that.
//
// # Names
//
// {b}, {s}, {buyer} (small letters and digits) are accounts that only this case uses: an id of digits, the
// same for each use of the name. {S}, {T}, {SPY} (capital letters and digits) are symbols that only this case
// uses. For {part} and {n}, see Header and At once. {repeat 1000 TEXT} is TEXT a thousand times, with {k} from 1 to
// 1000 in it; also in WANT.
//
// $1, $old: in WANT, the first use stores the value, and each later one must equal it; in DOC, it is the
// stored value. The children of an answer cannot store a $ value, since they have no order.
//
// # At once
//
//	| at-once 24
//	>   <transactions id="{b}"><order sym="{S}" amount="1" limit="10"/></transactions>
//	<10 <opened id="$new"/>
//	<*  <error/>
//
// sends the one frame after it on 24 new connections at the same moment. {n} is 1 to 24 in the frame and in
// WANT. <10: of the replies that no line above matched, exactly ten match this one. <*: all remaining replies
// match; without a WANT, they may be anything. If there is no <*, no reply may remain. "$new" is a value that
// differs between all replies of the block. What must hold of all replies together is tested afterwards, with
// ? and queries.
//
// A case of the group concurrency is first played with one connection after another. If it fails that way, it is
// skipped, since another case covers that. Then its connections act at once; if it fails, it is played three times
// in all.
package script
