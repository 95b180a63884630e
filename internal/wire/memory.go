package wire

import "bytes"

// What decoding a frame takes, measured from above (TestDecodeMemoryCoversEveryFrame
// holds the figures to it): the tree of its elements, its commands with their
// results, and the shortest reply, while the buffer of that grows.
const (
	memoryOfFrame     = 2000 // the decoder itself
	memoryOfByte      = 20   // names, values and texts, as read and as echoed with references
	memoryOfElement   = 1300 // the element, its command and result, its place in the reply
	memoryOfAttribute = 300

	attributeBytesMin = len(`a=""`)
)

// DecodeMemory returns how many bytes of memory a frame takes at most, from Decode to
// the end of AppendReply, for whoever bounds that before it happens. What results
// bring along, the executions of orders, comes on top. It only counts characters:
// it costs little, and says more than the truth where they stand in a text.
func DecodeMemory(frame []byte) int {
	elements := bytes.Count(frame, []byte("<")) - bytes.Count(frame, []byte("</"))
	return memoryOfFrame + len(frame)*memoryOfByte + min(elements, ElementsMax+1)*memoryOfElement +
		min(bytes.Count(frame, []byte("=")), len(frame)/attributeBytesMin)*memoryOfAttribute
}
