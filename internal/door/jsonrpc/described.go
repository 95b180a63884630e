package jsonrpc

import (
	"slices"
	"strings"
)

// The tables below describe messages. docs/reference/WEBSOCKET.md and docs/asyncapi.yaml are generated from them, and
// tests compare every message with them.

// field describes a member of a message. kind is a key of kinds, the name of one of objects, or that name with an s for
// an array of them.
type field struct {
	name, kind, doc string
	optional        bool
	values          []string // allowed values of a string; nil if any is allowed
}

// has describes a member that every message has. may describes a member that is left out when it is empty.
func has(name, kind, doc string) field { return field{name: name, kind: kind, doc: doc} }
func may(name, kind, doc string) field {
	return field{name: name, kind: kind, doc: doc, optional: true}
}

// oneOf describes a member that is one of several strings.
func oneOf(name, doc string, values ...string) field {
	return field{name: name, kind: "string", doc: doc, values: values}
}

// typeOf describes the member that names the type of a message.
func typeOf(kinds ...string) field { return oneOf("type", strings.Join(kinds, " or "), kinds...) }

// timeFields describes the two members of a time.
func timeFields(name, doc string) []field {
	return []field{has(name+"_ns", "nanoseconds", doc), has(name+"_ms", "whole", "the same, rounded down")}
}

// optionalAll returns the members marked as optional.
func optionalAll(all []field) []field {
	all = slices.Clone(all)
	for i := range all {
		all[i].optional = true
	}
	return all
}

// join concatenates lists of members.
func join(all ...[]field) []field { return slices.Concat(all...) }

var (
	seqField   = has("seq", "whole", "the newest record that is in the answer")
	prevField  = may("prev", "whole", "of a delta: the seq of the previous message; if it differs, subscribe again")
	moreField  = may("more", "boolean", "true: the message continues in the next one of the channel")
	recordTime = optionalAll(timeFields("time", "of the record; absent in a snapshot"))
)

// object describes a JSON object that messages contain.
type object struct {
	name, doc string
	fields    []field
}

// objects lists all objects that messages contain.
var objects = []object{
	{"order", "an order, after a record. |amount| = before + open + executed + canceled", join([]field{
		has("id", "whole", ""), may("ref", "string", "as placed"),
		may("newref", "string", "ref of the newest amend that resulted in it"),
		has("sym", "string", ""), has("amount", "decimal", "its total, executed shares included; negative sells"),
		oneOf("type", "", "limit", "market"), may("limit", "decimal", "as sent"),
		may("protection", "decimal", "of a market order: the price beyond which it does not execute"),
		oneOf("tif", "", "GTC", "IOC", "FOK"), has("post", "boolean", ""), has("cod", "boolean", "canceled on disconnect"),
		{name: "stp", kind: "string", doc: "the effective mode", optional: true,
			values: []string{"newest", "oldest", "both"}},
		oneOf("state", "canceled also if it has fills", "open", "executed", "canceled", "replaced"),
		{name: "why", kind: "string", optional: true,
			doc:    "of a canceled order: rest is the remainder canceled in its own record; otherwise the cause",
			values: []string{"rest", "stp", "disconnect", "timer", "operator", "cancel"}},
		has("open", "decimal", "shares"), has("executed", "decimal", "shares"),
		has("notional", "decimal", "sum of shares × price"),
		has("reduced", "decimal", "shares removed by amends in place"),
		has("canceled", "decimal", "shares; of a replaced order, those that moved to the new one"),
		may("before", "decimal", "executed by the orders that it replaced"), may("replaces", "whole", "an order"),
		may("by", "whole", "the order that replaced it")}, timeFields("time", "when it was accepted"),
		timeFields("changed", "its newest change"),
		[]field{may("fills", "fills", "in results about one order: the newest 1,000, oldest first")})},
	{"fill", "an execution, as one of its accounts sees it", join([]field{
		has("fill", "whole", "counts the account's fills 1, 2, 3 without a gap"), has("order", "whole", ""),
		may("trade", "whole", "id of the trade; absent for old executions, without ids"), has("sym", "string", ""),
		oneOf("side", "", "buy", "sell"), has("shares", "decimal", ""), has("price", "decimal", ""),
		has("maker", "boolean", "true if the order was resting")}, timeFields("time", ""))},
	{"position", "an account's shares of a symbol", []field{has("sym", "string", ""), has("shares", "decimal", "free"),
		has("held", "decimal", "by open sells")}},
	{"trade", "a trade, without its accounts", join([]field{has("id", "whole", "counts the symbol's trades"),
		has("price", "decimal", ""), has("shares", "decimal", ""), oneOf("side", "of the taker", "buy", "sell"),
		has("buy", "whole", "order"), has("sell", "whole", "order")}, timeFields("time", ""))},
	{"symbol", "a symbol", []field{has("sym", "string", ""), has("tick", "decimal", ""), has("lot", "decimal", ""),
		has("halted", "boolean", "")}},
	{"change", "a change of an order that rests; an order of open \"0\" is gone", []field{
		oneOf("op", "replace: by replaces id in the book; add: id is the last one at its price", "replace", "fill", "delete",
			"reduce", "add"),
		has("id", "whole", "order"), may("by", "whole", "of replace"), may("trade", "whole", "of fill"),
		may("shares", "decimal", "of fill, reduce, add"), may("open", "decimal", "what is left, of fill and reduce"),
		{name: "side", kind: "string", doc: "of add", optional: true, values: []string{"buy", "sell"}},
		may("price", "decimal", "of add")}},
}

// kinds maps the kind of a member that is not an object to its JSON type, in words.
var kinds = map[string]string{
	"string": "a string", "strings": "an array of strings", "boolean": "true or false",
	"whole": "a whole number from 0 to 2^53-1", "decimal": "a decimal in a string, exact",
	"nanoseconds": "a whole number in a string: nanoseconds since the Unix epoch",
	"levels":      `an array of ["price","shares"]`, "resting": `an array of [id,"price","shares"]`,
}
