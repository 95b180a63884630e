package jsonrpc

import (
	"fmt"
	"strconv"
	"strings"

	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// secondsMax is the longest time that cancel_after accepts, in seconds: a day.
const secondsMax = 86_400

// depthLevelsMax is how many levels of each side book.get returns at most. depthLevels is how many it returns if the
// request has no depth.
const (
	depthLevelsMax = 1000
	depthLevels    = 100
)

type value = jsontext.Value

// args holds the params of a request, as parsed values.
type args struct {
	params value // params as sent; dropped once they are read, because they may need much more memory than the rest

	exchange.Command                 // the command; other methods use its account, symbol or order
	newRef           exchange.Ref    // param newref of order.amend
	seconds          int             // param seconds of cancel_after
	after            uint64          // param after of subscribe, and of lists that are sorted by a number
	hasAfter         bool            // whether after was sent
	afterName        exchange.Symbol // param after of lists that are sorted by name
	depth            int             // param depth of book.get
	names            []string        // param channels of subscribe and unsubscribe, as sent
	channels         []channel       // param channels of subscribe and unsubscribe, parsed
	on               bool            // param on of session.cancel_on_disconnect
	token            string          // param token of auth
}

// has reports whether a param was sent.
func (a *args) has(name string) bool {
	_, ok := a.params.Get(name)
	return ok
}

// paramType is the JSON type of a param.
type paramType uint8

const (
	aString paramType = iota
	aDecimal
	aWhole
	aBool
	aList
)

// String returns the type in the words of the reference and of error texts.
func (t paramType) String() string {
	return [...]string{"a string", "a decimal in a string", "a whole number", "true or false", "an array of strings"}[t]
}

// fits reports whether a value is of the type.
func (t paramType) fits(v *value) bool {
	switch t {
	case aString, aDecimal:
		return v.Kind == jsontext.IsString
	case aWhole:
		return v.Kind == jsontext.IsNumber && !strings.ContainsAny(string(v.Raw), ".eE")
	case aBool:
		return v.Kind == jsontext.IsBool
	case aList:
		for i := range v.Items {
			if v.Items[i].Kind != jsontext.IsString {
				return false
			}
		}
		return v.Kind == jsontext.IsArray
	}
	return false
}

// param is a parameter of a method: its name, its type, and read, which stores its value in args. An error of read
// names the value.
type param struct {
	name     string
	kind     paramType
	optional bool
	doc      string
	read     func(a *args, v *value) error
}

// Parameters that several methods share.
var (
	pAccount = param{name: "account", doc: "the account's id; optional with a token for exactly one account",
		read: func(a *args, v *value) (err error) { a.Account, err = exchange.ParseAccountID(v.Own()); return err }}
	pSym = param{name: "sym", doc: "a symbol",
		read: func(a *args, v *value) (err error) { a.Symbol, err = exchange.ParseSymbol(v.Own()); return err }}
	pSymOnly = param{name: "sym", optional: true, doc: "only of this symbol", read: pSym.read}
	pID      = param{name: "id", kind: aWhole, optional: true, doc: "the order, by its id",
		read: func(a *args, v *value) (err error) { a.Order, err = exchange.ParseOrderID(v.Raw); return err }}
	pRef   = param{name: "ref", optional: true, doc: "the order, by a ref of its chain", read: readRef}
	pAfter = param{name: "after", kind: aWhole, optional: true, read: readAfter}
)

// afterThat returns the param after with the given description.
func afterThat(doc string) param {
	p := pAfter
	p.doc = doc
	return p
}

func readRef(a *args, v *value) (err error) {
	a.Ref, err = exchange.ParseRef(v.Own())
	return err
}

func readNewRef(a *args, v *value) (err error) {
	if a.newRef, err = exchange.ParseRef(v.Own()); err != nil {
		return fmt.Errorf("new%w", err)
	}
	return nil
}

func readAmount(a *args, v *value) (err error) {
	a.Side, a.Shares, err = exchange.ParseAmount(v.Text)
	return err
}

func readLimit(a *args, v *value) (err error) {
	a.Limit, err = exchange.ParseLimit(v.Text)
	return err
}

func readAfter(a *args, v *value) (err error) {
	a.hasAfter = true
	a.after, err = readWhole("after", v, 0, wholeMax)
	return err
}

func readSeconds(a *args, v *value) error {
	n, err := readWhole("seconds", v, 0, secondsMax)
	a.seconds = int(n)
	return err
}

func readDepth(a *args, v *value) error {
	n, err := readWhole("depth", v, 1, depthLevelsMax)
	a.depth = int(n)
	return err
}

// readWhole reads a whole number from least to most.
func readWhole(name string, v *value, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(string(v.Raw), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s %s is not a whole number from %d to %d", name, clip(string(v.Raw)), least, most)
	}
	return n, nil
}

// clip shortens a number for an error text.
func clip(s string) string {
	if len(s) > jsontext.QuotedBytesMax {
		return s[:jsontext.QuotedBytesMax] + "…"
	}
	return s
}

func readChannels(a *args, v *value) error {
	if len(v.Items) == 0 || len(v.Items) > channelsMax {
		return fmt.Errorf("channels has %d names; it must have 1 to %d", len(v.Items), channelsMax)
	}
	seen := make(map[string]struct{}, len(v.Items))
	for i := range v.Items {
		name := v.Items[i].Own()
		if _, twice := seen[name]; twice {
			return fmt.Errorf("channel %s is named twice", jsontext.Quote(name))
		}
		seen[name] = struct{}{}
		a.names = append(a.names, name)
	}
	return nil
}

const (
	// wholeMax is the largest whole number in messages. Every JSON reader represents it exactly.
	wholeMax = 1<<53 - 1

	// idCharsMax is how many characters the id of a request may have.
	idCharsMax = 64
)
