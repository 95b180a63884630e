// Package dialect speaks the XML protocol with a server that is not known to speak it well: it
// finds out how the server speaks, speaks like that, reads what comes within bounds of time and
// memory, and remarks what is not as the protocol has it.
package dialect

import "time"

// Habits are how a server differs from the protocol in form. The zero value is the protocol.
type Habits struct {
	AccountAttribute bool `json:"account_attribute"` // the root's attribute is account instead of id
	CRLF             bool `json:"crlf"`              // a length line has to end with CR LF
	Bare             bool `json:"bare"`              // replies have no length line
	WrongLength      bool `json:"wrong_length"`      // replies have one that is wrong
	OneFrame         bool `json:"one_frame"`         // the server closes after each reply
	ResultRoot       bool `json:"result_root"`       // the root of replies is <result>
	Whole            bool `json:"whole"`             // numbers have to be whole
	ErrorCloses      bool `json:"error_closes"`      // the server closes after a reply that has an error
}

// Bounds of what a server may send, and how long it may take. A reply of the kit's own cases has
// few hundred elements; with these, a kit that reads 64 replies at once stays below 512 MB whatever
// they are.
const (
	ReplyTime     = 3 * time.Second // for a reply, however it drips
	ReplyBytesMax = 8 << 20
	TokenBytesMax = 64 << 10 // of one tag or text of a reply
	DepthMax      = 32
	ElementsMax   = 10_000                 // of a reply: ask for at most 1,000 orders in a frame
	SilenceEnds   = 300 * time.Millisecond // a reply shorter than its length ends at </results> and so much silence
	ExcerptMax    = 4 << 10                // bytes of a conversation that are kept

	elementAttributesMax = 32
	attributesMax        = 3 * ElementsMax
	keptMax              = 1 << 20   // bytes of a reply's names, values and texts
	lengthLineMax        = 64        // bytes of a length line; a longer one is none
	unreadMax            = 256 << 10 // bytes that a connection reads ahead of Receive
	heldMax              = 1000      // frames that wait because the server answers one a connection
)

// Attr is an attribute as it was sent.
type Attr struct{ Name, Value string }

// Element is an element of a reply.
type Element struct {
	Name     string
	Attrs    []Attr
	Children []*Element
	Text     string // the element's own, trimmed
}

// Attr returns the value of an attribute, and whether there is one.
func (e *Element) Attr(name string) (value string, ok bool) {
	for _, a := range e.Attrs {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Form names something that every reply shows, and that costs the server one case of the group
// form wherever it is seen.
type Form string

// The forms. Names are those of the cases of the group form.
const (
	LengthLine       Form = "length-line"       // none
	Length           Form = "length"            // wrong
	Root             Form = "root"              // not <results>
	AccountAttribute Form = "account-attribute" // only account is taken, not id
	Echo             Form = "echo"              // an attribute missing, or not as it was sent
	ErrorText        Form = "error-text"        // an error without a text
	Time             Form = "time"              // not ten digits, or a day off
	Number           Form = "number"            // "$125.00", "1e1"
	Sign             Form = "sign"              // negative shares
	ExecutionsOrder  Form = "executions-order"  // not oldest first
	OpenZero         Form = "open-zero"         // <open shares="0"/>
	RefusedID        Form = "id-of-refused"     // a refused order has an id of an order
)

// Remark is a fault of form, with the conversation that shows it.
type Remark struct {
	Form   Form
	Detail string // what was seen, in a sentence
	Sent   string // at most 4 kB
	Got    string // at most 4 kB
}
