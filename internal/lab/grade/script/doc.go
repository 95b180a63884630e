// Package script has the cases by which a server is graded: conversations with what has to be
// answered, each with the rule of the protocol that it tries and a sentence that says so.
//
// # A case
//
// A case is a file GROUP/NAME.case: a header, then the conversation. A line that begins with # is a
// comment. A line that begins with a blank goes on with the line above it, and nothing stands
// between the two.
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
// case, rule and tell have to be there. points (1), risk (0, to 9: those that may bring a server
// down are played late), time (10, in seconds), hidden (no), parts (none) need not. Behind all but
// tell, # begins a comment. "parts 8 16 32" plays the conversation once for each, {part} is 8, 16 and 32 in it, and
// the case is worth as much as its parts that pass. A case of the group form has no conversation:
// it fails if the fault was seen anywhere.
//
// # Lines
//
//	>  DOC       sends the document as a frame; 2> sends it on connection 2, which is made if it is new
//	>| BYTES     sends bytes, with the escapes \n \r \t \0 \\ \xFF, and in them {frame DOC}: the frame of a
//	             document as the server wants frames; {crlf DOC}: with a carriage return behind the length;
//	             {cut DOC}: a frame that ends in the middle of its document
//	<  WANT      the next reply's answers, that is the children of its root, in their order; 2< on connection 2;
//	             nothing: a reply without answers; *: any reply
//	<|           the server has to close the connection; one reply of errors may come before that
//	| VERB ARGS  does something else; 2| does it to connection 2; docs/reference/CASES.md has all verbs
//	? FACT       asks for a fact by what is refused and what is taken: ? cash b 850, ? shares b S 15
//
// A frame need not be well-formed. A reply that no line asks for is not looked at. A case fails at its
// first line that does not hold.
//
// # What is compared
//
// Answers agree in number, order and tag. Attributes that WANT names are equal: as numbers if both are
// numbers, shares without their sign. "*" as a value is any value, but the attribute is there. <any/>
// is any answer. Attributes that WANT does not name, and texts, are free; so are the children of an
// answer if WANT names none. If it names some, they are the same set, in any order; those of no shares
// (<open shares="0"/>) do not count, since the group form has that.
//
// # Names
//
// {b}, {s}, {buyer}, small letters and digits: an account of this case alone, made of digits, the same
// wherever it is named. {S}, {T}, {SPY}, capital letters and digits: a symbol of this case alone.
// {part}: see above. {n}: see at-once. {repeat 1000 TEXT}: TEXT a thousand times, {k} is 1 to 1000 in
// it; also in WANT.
//
// $1, $old: in WANT the value is kept when it is first seen, and has to be equal wherever it comes again;
// in DOC it is that value. No $ is new within an answer: its children have no order.
//
// # At once
//
//	| at-once 24
//	>   <transactions id="{b}"><order sym="{S}" amount="1" limit="10"/></transactions>
//	<10 <opened id="$new"/>
//	<*  <error/>
//
// sends the one frame behind it on 24 new connections at the same moment; {n} is 1 to 24 in it and in what is
// wanted. <10: exactly ten replies are like that, of those that no line above took. <*: so are all
// others; alone: they may be anything. Without it no other may be left. "$new" is a value that no other
// reply of the block has. What has to hold of all together is asked afterwards, with ? and queries.
//
// A case of the group concurrency is first played one after another: if it is wrong there, it is
// skipped, since another case says so. Then at once; if it fails, three times in all.
package script
