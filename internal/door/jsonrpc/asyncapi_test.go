package jsonrpc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/doctest"
)

// TestReferenceOfMessages generates docs/asyncapi.yaml from the tables, or compares it with them.
func TestReferenceOfMessages(t *testing.T) {
	require.NoError(t, doctest.Reference("../../../docs/asyncapi.yaml", asyncAPI(), *update))
}

// asyncAPI returns the description of all messages as YAML.
func asyncAPI() string {
	var d description
	d.line(0, "asyncapi: 3.0.0")
	d.line(0, "info:")
	d.line(1, "title: Outcry, JSON over WebSocket")
	d.line(1, `version: "1"`)
	d.line(1, "description: JSON-RPC 2.0. Made by make reference; docs/reference/WEBSOCKET.md says the same for people.")
	d.line(0, "defaultContentType: application/json")
	d.line(0, "channels:")
	d.line(1, "ws:")
	d.line(2, "address: /api/v1/ws")
	d.line(2, "messages:")
	var names []string
	for i := range methods {
		names = append(names, methods[i].name+".request", methods[i].name+".result")
	}
	names = append(names, "error")
	channels := slices.Sorted(maps.Keys(channelKinds))
	for _, c := range channels {
		names = append(names, c+".event")
	}
	for _, name := range names {
		d.line(3, "%s: {$ref: '#/components/messages/%s'}", name, name)
	}
	d.operations(channels)
	d.line(0, "components:")
	d.line(1, "messages:")
	for _, name := range names {
		d.line(2, "%s: {payload: {$ref: '#/components/schemas/%s'}}", name, name)
	}
	d.line(1, "schemas:")
	for i := range methods {
		d.method(&methods[i])
	}
	d.fault()
	for _, c := range channels {
		k := channelKinds[c]
		d.line(2, "%s.event:", c)
		d.envelope(`method: {const: subscription}`, "params")
		d.line(4, "params:")
		d.line(5, "type: object")
		d.line(5, "additionalProperties: false")
		d.line(5, "required: [channel, data]")
		d.line(5, "properties:")
		d.line(6, "channel: {type: string, pattern: '^%s\\.'}", c)
		d.line(6, "data:")
		d.object(7, k.doc, k.data)
	}
	for _, o := range objects {
		d.line(2, "%s:", o.name)
		d.object(3, o.doc, o.fields)
	}
	d.kinds()
	return d.String()
}

// description is the text of docs/asyncapi.yaml while it is being written.
type description struct{ strings.Builder }

// line writes a line that is indented depth levels.
func (d *description) line(depth int, text string, values ...any) {
	fmt.Fprintf(d, strings.Repeat("  ", depth)+text+"\n", values...)
}

func (d *description) operations(channels []string) {
	d.line(0, "operations:")
	const ws = "channel: {$ref: '#/channels/ws'}"
	for i := range methods {
		m := &methods[i]
		d.line(1, "%s:", m.name)
		d.line(2, "action: receive")
		d.line(2, "summary: %q", sentence(m.doc))
		d.line(2, ws)
		d.line(2, "messages: [{$ref: '#/channels/ws/messages/%s.request'}]", m.name)
		d.line(2, "reply:")
		d.line(3, ws)
		d.line(3, "messages: [{$ref: '#/channels/ws/messages/%s.result'}, {$ref: '#/channels/ws/messages/error'}]", m.name)
	}
	for _, c := range channels {
		d.line(1, "%s:", c)
		d.line(2, "action: send")
		d.line(2, "summary: %q", sentence(channelKinds[c].form+": "+channelKinds[c].doc))
		d.line(2, ws)
		d.line(2, "messages: [{$ref: '#/channels/ws/messages/%s.event'}]", c)
	}
}

// envelope writes the beginning of a message's schema. The caller then writes the schemas of the members in
// required.
func (d *description) envelope(member, required string) {
	d.line(3, "type: object")
	d.line(3, "additionalProperties: false")
	name, _, _ := strings.Cut(member, ":")
	d.line(3, "required: [jsonrpc, %s, %s]", name, required)
	d.line(3, "properties:")
	d.line(4, `jsonrpc: {const: "2.0"}`)
	d.line(4, "%s", member)
}

func (d *description) method(m *method) {
	d.line(2, "%s.request:", m.name)
	required := "method"
	for i := range m.params {
		if p := &m.params[i]; !p.optional && p.name != pAccount.name {
			required = "method, params"
		}
	}
	d.envelope("id: {$ref: '#/components/schemas/id'}", required)
	d.line(4, "method: {const: %s}", m.name)
	d.line(4, "params:")
	var params []field
	for i := range m.params {
		p := &m.params[i]
		kind := map[paramType]string{aString: "string", aDecimal: "anyDecimal", aWhole: "whole", aBool: "boolean",
			aList: "strings"}[p.kind]
		if p.name == "limit" {
			kind = "anyDecimal"
		}
		params = append(params, field{name: p.name, kind: kind, doc: p.doc, optional: p.optional || p.name == pAccount.name})
	}
	d.object(5, m.doc, params)
	d.line(2, "%s.result:", m.name)
	d.envelope("id: {$ref: '#/components/schemas/id'}", "result")
	d.line(4, "result:")
	result := m.result
	if m.access != forAll && m.name != "session.cancel_on_disconnect" {
		result = join([]field{seqField}, result)
	}
	d.object(5, m.doc, result)
}

func (d *description) fault() {
	d.line(2, "error:")
	d.envelope("id: {oneOf: [{type: 'null'}, {$ref: '#/components/schemas/id'}]}", "error")
	d.line(4, "error:")
	d.line(5, "type: object")
	d.line(5, "additionalProperties: false")
	d.line(5, "required: [code, message, data]")
	d.line(5, "properties:")
	var all []string
	for _, c := range codes {
		all = append(all, fmt.Sprint(c.code))
	}
	d.line(6, "code: {enum: [%s]}", strings.Join(all, ", "))
	d.line(6, "message: {type: string}")
	all = nil
	for _, o := range ownReasons {
		all = append(all, string(o.reason))
	}
	for r := exchange.OK + 1; r.String() != "unknown"; r++ {
		if !slices.Contains(throughXML, r) {
			all = append(all, string(reported(r).reason))
		}
	}
	slices.Sort(all)
	d.line(6, "data:")
	d.line(7, "type: object")
	d.line(7, "additionalProperties: false")
	d.line(7, "required: [reason]")
	d.line(7, "properties:")
	d.line(8, "reason: {enum: [%s]}", strings.Join(slices.Compact(all), ", "))
}

// object writes the schema of an object.
func (d *description) object(depth int, doc string, fields []field) {
	d.line(depth, "type: object")
	d.line(depth, "description: %q", sentence(doc))
	d.line(depth, "additionalProperties: false")
	var required []string
	for _, f := range fields {
		if !f.optional {
			required = append(required, f.name)
		}
	}
	if required != nil {
		d.line(depth, "required: [%s]", strings.Join(required, ", "))
	}
	if len(fields) == 0 {
		return
	}
	d.line(depth, "properties:")
	for _, f := range fields {
		schema := "$ref: '#/components/schemas/" + f.kind + "'"
		if f.values != nil {
			schema = "enum: [" + strings.Join(f.values, ", ") + "]"
		}
		if f.doc != "" {
			schema += fmt.Sprintf(", description: %q", f.doc)
		}
		name := f.name
		if name == "on" || name == "n" {
			name = `"` + name + `"` // YAML 1.1 reads these two names as booleans
		}
		d.line(depth+1, "%s: {%s}", name, schema)
	}
}

// kinds writes the schemas of members that are not objects.
func (d *description) kinds() {
	d.line(2, "id: {oneOf: [{type: integer, minimum: -%d, maximum: %d}, {type: string, maxLength: %d}]}",
		wholeMax, wholeMax, idCharsMax)
	d.line(2, "string: {type: string}")
	d.line(2, "boolean: {type: boolean}")
	d.line(2, "whole: {type: integer, minimum: 0, maximum: %d}", wholeMax)
	d.line(2, `anyDecimal: {type: string, pattern: '^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$'}`)
	d.line(2, `decimal: {type: string, pattern: '^-?(0|[1-9][0-9]*)(\.[0-9]{0,15}[1-9])?$'}`)
	d.line(2, "nanoseconds: {type: string, pattern: '^[0-9]+$'}")
	d.line(2, "strings: {type: array, items: {type: string}}")
	const ref = "{$ref: '#/components/schemas/decimal'}"
	d.line(2, "levels: {type: array, maxItems: %d, items: {type: array, prefixItems: [%s, %s], minItems: 2, maxItems: 2}}",
		entriesMax, ref, ref)
	d.line(2, "resting: {type: array, maxItems: %d, items: {type: array, prefixItems: [{type: integer}, %s, %s], "+
		"minItems: 3, maxItems: 3}}", entriesMax, ref, ref)
	for _, o := range objects {
		d.line(2, "%ss: {type: array, maxItems: %d, items: {$ref: '#/components/schemas/%s'}}", o.name, entriesMax, o.name)
	}
}
