// Package dialect speaks the XML protocol with a server that may deviate from it. It finds out the server's habits,
// adapts to them, reads replies within bounds of time and memory, and reports each deviation from the protocol as a
// remark.
package dialect

import "time"

// Habits are the ways in which a server's form differs from the protocol. The zero value is a server
// that follows the protocol.
type Habits struct {
	AccountAttribute bool `json:"account_attribute"` // the account of <transactions> is in account instead of id
	CRLF             bool `json:"crlf"`              // the server needs length lines that end with CR LF
	Bare             bool `json:"bare"`              // replies have no length line
	WrongLength      bool `json:"wrong_length"`      // the length lines of replies are wrong
	OneFrame         bool `json:"one_frame"`         // the server closes the connection after each reply
	ResultRoot       bool `json:"result_root"`       // the root of replies is <result>
	Whole            bool `json:"whole"`             // the server accepts only whole numbers
	ErrorCloses      bool `json:"error_closes"`      // the server closes the connection after a reply with an error
}

// Bounds of what a server may send, and of how long it may take. A reply in the kit's own cases has a
// few hundred elements. With these bounds a kit that reads 64 replies at once uses less than 512 MB,
// whatever the replies contain.
const (
	ReplyTime     = 3 * time.Second // time for a whole reply, even if it arrives byte by byte
	ReplyBytesMax = 8 << 20
	TokenBytesMax = 64 << 10 // bytes of one tag or text of a reply
	DepthMax      = 32
	ElementsMax   = 10_000                 // elements of a reply: send at most 1,000 orders in a frame
	SilenceEnds   = 300 * time.Millisecond // a reply shorter than its length ends after this much silence
	ExcerptMax    = 4 << 10                // bytes of each side of a conversation that are kept

	elementAttributesMax = 32
	attributesMax        = 3 * ElementsMax
	keptMax              = 1 << 20   // bytes of a reply's names, values and texts
	lengthLineMax        = 64        // bytes of a length line; a longer line is no length line
	unreadMax            = 256 << 10 // bytes that a connection reads ahead of Receive
	heldMax              = 1000      // frames held back until an earlier frame is answered
)

// Attr is an attribute with its value unescaped.
type Attr struct{ Name, Value string }

// Element is an element of a reply.
type Element struct {
	Name     string
	Attrs    []Attr
	Children []*Element
	Text     string // the element's own text without that of its children, trimmed
}

// Attr returns the value of an attribute, and whether e has it.
func (e *Element) Attr(name string) (value string, ok bool) {
	for _, a := range e.Attrs {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Form names a rule about the form of replies. A server that breaks it anywhere fails the case of this name in the
// group form, and no other case.
type Form string

// The forms, each with the violation. Their names are those of the cases of the group form.
const (
	LengthLine       Form = "length-line"       // a reply has no well-formed length line
	Length           Form = "length"            // the length is wrong
	Root             Form = "root"              // the root is not <results>
	AccountAttribute Form = "account-attribute" // the server accepts the attribute account, but not id
	Echo             Form = "echo"              // an attribute is not repeated, or not as it was sent
	ErrorText        Form = "error-text"        // an error has no text
	Time             Form = "time"              // a time that does not have ten digits, or is more than a day off
	Number           Form = "number"            // a number is not a plain decimal: "$125.00", "1e1"
	Sign             Form = "sign"              // shares are negative
	ExecutionsOrder  Form = "executions-order"  // executions are not oldest first
	OpenZero         Form = "open-zero"         // there is an <open shares="0"/>
	RefusedID        Form = "id-of-refused"     // the error of a rejected order has an order id
)

// Remark is a deviation in form, with the conversation that shows it.
type Remark struct {
	Form   Form
	Detail string // what was wrong, as a sentence without the full stop
	Sent   string // the request, at most ExcerptMax bytes
	Got    string // the reply, at most ExcerptMax bytes
}
