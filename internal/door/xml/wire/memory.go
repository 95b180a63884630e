package wire

import "bytes"

// Upper bounds, from measurements, of the memory for decoding a frame and building its reply: the tree
// of its elements, its commands and results, and the reply without executions, including the growth of
// its buffer. TestDecodeMemoryCoversEveryFrame checks them.
const (
	memoryOfFrame     = 2000 // for the decoder itself
	memoryOfByte      = 20   // for names, values and texts, read and repeated with references
	memoryOfElement   = 2200 // for an element, its command and result, and its answer with the longest error
	memoryOfInherited = 800  // additionally per element if the frame has a <symbol>, whose sym errors repeat
	memoryOfAttribute = 300

	attributeBytesMin = len(`a=""`)
)

// DecodeMemory returns the most memory, in bytes, that a frame needs from Decode to the end of AppendReply, without
// the executions of orders in results. Callers use it to limit memory in advance. It only counts characters: it is
// cheap, and overestimates if those characters occur in texts.
func DecodeMemory(frame []byte) int {
	elements, hasSymbol := elementsOf(frame)
	ofElement := memoryOfElement
	if hasSymbol {
		ofElement += memoryOfInherited
	}
	return memoryOfFrame + len(frame)*memoryOfByte + elements*ofElement +
		min(bytes.Count(frame, []byte("=")), len(frame)/attributeBytesMin)*memoryOfAttribute
}

// Upper bounds for a reply: each byte of a value may become a reference, and each element may become an
// error with the longest text and the repeated sym of the <symbol> around it.
const (
	escapedBytesMax = len("&quot;")
	answerBytesMax  = len(`<error sym="" id="18446744073709551615"></error>`) +
		echoBytesMax*escapedBytesMax + errorBytesMax + 2*len(ellipsis)
)

// ReplyMax returns the largest size, in bytes, of the reply to a frame, without executions. It costs as
// much as DecodeMemory.
func ReplyMax(frame []byte) int {
	elements, _ := elementsOf(frame)
	return len(ReplyBegin+ReplyEnd) + (1+elements)*answerBytesMax + len(frame)*escapedBytesMax
}

// elementsOf returns an upper bound of the number of elements in a frame, at most ElementsMax+1, and whether one of
// the elements may be a <symbol>. It looks only at each "<": most bytes of a frame are between two of them.
func elementsOf(frame []byte) (elements int, hasSymbol bool) {
	for i := bytes.IndexByte(frame, '<'); i >= 0; i = bytes.IndexByte(frame, '<') {
		if frame = frame[i+1:]; len(frame) > 0 && frame[0] == '/' {
			continue
		}
		elements++
		hasSymbol = hasSymbol || bytes.HasPrefix(frame, []byte("symbol"))
	}
	return min(elements, ElementsMax+1), hasSymbol
}
