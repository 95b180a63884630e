package wire

import (
	"regexp"
	"strings"
)

// strictReply matches a reply exactly as the exchange writes it: which elements and attributes it has, in which
// order. ParseReply accepts more.
var strictReply = regexp.MustCompile(`^<results(/>|>(` + strings.Join([]string{
	`<error` + attrs(strings.Join(repeatedNames[:], "? ")+"?") + `>[^<]+</error>`,
	`<created` + attrs("sym? tick? lot? id? ref?") + `/>`,
	`<opened` + attrs("sym amount limit? type? tif? post? stp? cod? report? ref? id") + `(/>|>` + reported + `</opened>)`,
	`<status` + attrs("id? ref? id?") + `>` + state + `</status>`,
	`<canceled` + attrs("id? ref? id?") + `>` + state + `</canceled>`,
	`<amended` + attrs("ref? id by amount? limit? report? newref?") + `(/>|>` + reported + `</amended>)`,
	`<amended` + attrs("ref? id amount? limit? report? newref?") + `>` + opened + reduced + `</amended>`,
	`<canceled-all` + attrs("sym? count") + `/>`, `<cancel-after` + attrs("seconds") + `/>`,
	`<session` + attrs("cancel timeout?") + `/>`,
	`<account` + attrs("id balance held") + `(/>|>(<position` + attrs("sym shares held") + `/>)+</account>)`,
	list("orders", "order", "id sym amount limit post? stp? cod? open time"),
	list("fills", "fill", "n id sym side shares price time"),
}, "|") + `)+</results>)$`)

const (
	opened   = `<open shares="[0-9.]+"/>`
	canceled = `<canceled shares="[0-9.]+" time="-?[0-9]+"/>`
	reduced  = `(<reduced shares="[0-9.]+" time="-?[0-9]+"/>)?`
	executed = `(<executed shares="[0-9.]+" price="[0-9.]+" time="-?[0-9]+"/>)*`
	state    = `(` + opened + `|` + canceled + `)?(<replaced id="[0-9]+"/>)?` + reduced + executed
	reported = `(` + opened + `|` + canceled + `)?` + executed + `(<more/>)?`
)

// attrs returns a pattern for attributes with the given names; a name followed by ? is optional.
func attrs(names string) (pattern string) {
	for name := range strings.FieldsSeq(names) {
		pattern += `( ` + strings.TrimSuffix(name, "?") + `="[^"<]*")`
		if strings.HasSuffix(name, "?") {
			pattern += "?"
		}
	}
	return pattern
}

func list(name, line, names string) string {
	return `<` + name + `(/>|>(<` + line + attrs(names) + `/>)*(<more after="[0-9]+"/>)?</` + name + `>)`
}
