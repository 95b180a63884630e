package wire

import "bytes"

// What decoding a frame takes, measured from above (TestDecodeMemoryCoversEveryFrame
// holds the figures to it): the tree of its elements, its commands with their
// results, and the reply without executions, while the buffer of that grows.
const (
	memoryOfFrame     = 2000 // the decoder itself
	memoryOfByte      = 20   // names, values and texts, as read and as echoed with references
	memoryOfElement   = 2200 // the element, its command and result, its place in the reply with the longest error
	memoryOfInherited = 800  // of an element if there is a <symbol>, whose name its error repeats
	memoryOfAttribute = 300

	attributeBytesMin = len(`a=""`)
)

// DecodeMemory returns how many bytes of memory a frame takes at most, from Decode to
// the end of AppendReply, for callers that bound it before it happens. What results
// bring along, the executions of orders, comes on top. It only counts characters:
// it costs little, and says more than the truth where they stand in a text.
func DecodeMemory(frame []byte) int {
	ofElement := memoryOfElement
	if bytes.Contains(frame, []byte("<symbol")) {
		ofElement += memoryOfInherited
	}
	return memoryOfFrame + len(frame)*memoryOfByte + elementsOf(frame)*ofElement +
		min(bytes.Count(frame, []byte("=")), len(frame)/attributeBytesMin)*memoryOfAttribute
}

// What a reply has of a frame at most: each byte of a value as a reference, and for each
// element an error of the longest text, with what it repeats of the <symbol> around it.
const (
	escapedBytesMax = len("&quot;")
	answerBytesMax  = len(`<error sym="" id="18446744073709551615"></error>`) +
		echoBytesMax*escapedBytesMax + errorBytesMax + 2*len(ellipsis)
)

// ReplyMax returns how many bytes the reply to a frame has at most, statuses and what is
// canceled without their executions included. It costs what DecodeMemory does.
func ReplyMax(frame []byte) int {
	return len(ReplyBegin+ReplyEnd) + (1+elementsOf(frame))*answerBytesMax + len(frame)*escapedBytesMax
}

// elementsOf returns how many elements a frame has at most, up to one more than are taken.
func elementsOf(frame []byte) int {
	return min(bytes.Count(frame, []byte("<"))-bytes.Count(frame, []byte("</")), ElementsMax+1)
}
