package wire

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// costly are documents that are made to take much memory for their bytes: a start,
// a part that is repeated, an end.
var costly = map[string][3]string{
	"attributes of one element": {"<create", ` a=""`, ""},
	"32 attributes":             {"<create>", "<a" + attributes(attributesMax) + "/>", "</create>"},
	"empty elements":            {"<create>", "<a/>", "</create>"},
	"unknown transactions":      {`<transactions id="1">`, "<a/>", "</transactions>"},
	"orders without anything":   {`<transactions id="1">`, "<order/>", "</transactions>"},
	"queries":                   {`<transactions id="1">`, `<query id="1"/>`, "</transactions>"},
	"orders":                    {`<transactions id="` + strings.Repeat("9", exchange.AccountDigitsMax) + `">`, `<order sym="A" amount="1" limit="1"/>`, "</transactions>"},
	"orders with an end tag":    {`<transactions id="1">`, `<order sym="SPY" amount="1" limit="1"></order>`, "</transactions>"},
	"orders of nobody":          {"<transactions>", `<order sym="" amount="" limit="" id=""/>`, "</transactions>"},
	"orders of a bad symbol":    {`<transactions id="1">`, `<order sym="` + strings.Repeat("?", 72) + `" amount="" limit=""/>`, "</transactions>"},
	"symbols":                   {"<create>", `<symbol sym="A"/>`, "</create>"},
	"symbols with accounts":     {"<create>", `<symbol sym="A"><account id="1">1</account></symbol>`, "</create>"},
	"accounts":                  {"<create>", `<account id="1" balance="1"/>`, "</create>"},
	"quotes":                    {`<transactions id="1">`, `<a id='""""""""""""""""'/>`, "</transactions>"},
	"one value of quotes":       {`<transactions id="1"><a id='`, `"`, `'/></transactions>`},
	"one long value":            {`<transactions id="1"><a id='`, "x", `'/></transactions>`},
	"a comment at the end":      {`<transactions id="1">`, `<query id="1"/>`, "<!----></transactions>"}, // both decoders have all of it by then
	"placements, a comment":     {`<create><symbol sym="` + strings.Repeat("A", exchange.SymbolCharsMax) + `">`, `<account id="1">1</account>`, "<!----></symbol></create>"},
	"one long name":             {"<", "x", "/>"},
	"one long text":             {"<create>", "x", "</create>"},
	"one long comment":          {"<create><!--", "x", "--></create>"},
	"one long instruction":      {"<?a ", "x", "?><create/>"},
	"one long directive":        {"<!DOCTYPE ", "x", ">"},
	"comments":                  {"<create>", "<!---->", "</create>"},
	"comments between texts":    {"<create>", "x<!---->", "</create>"},
	"references":                {"<create>", "&lt;", "</create>"},
	"instructions":              {"<create>", "<?a?>", "</create>"},
	"character data":            {"<create>", "<![CDATA[]]>", "</create>"},
	"nested":                    {"<create>", "<a>", ""},
	"no XML":                    {"", "0", ""},
	"no UTF-8":                  {"", "\xff", ""},
}

// fill returns a document of about so many bytes.
func fill(document [3]string, bytes int) []byte {
	start, part, end := document[0], document[1], document[2]
	return []byte(start + strings.Repeat(part, max(1, (bytes-len(start)-len(end))/len(part))) + end)
}

func TestDecodeMemoryCoversEveryFrame(t *testing.T) {
	most, of := 0.0, ""
	for name, document := range costly {
		for _, size := range []int{1, 60_000, 390_000} {
			frame := fill(document, size)
			taken := memoryOf(frame)
			for i := 0; i < 3 && taken > DecodeMemory(frame); i++ {
				taken = memoryOf(frame) // the runtime may have allocated something of its own meanwhile
			}
			require.LessOrEqual(t, taken, DecodeMemory(frame), "%s: %d bytes", name, len(frame))
			if ratio := float64(taken) / float64(len(frame)); size > 1000 && ratio > most {
				most, of = ratio, name
			}
		}
	}
	t.Logf("most memory for a byte of XML: %.0f bytes, %s", most, of)
}

// memoryOf returns what decoding and answering a frame allocates, garbage included,
// if everything in it is refused with a long text.
func memoryOf(frame []byte) int {
	var before, after runtime.MemStats
	var r Request
	runtime.ReadMemStats(&before)
	r.Decode(frame)
	results := make([]exchange.Result, len(r.Commands))
	runtime.ReadMemStats(&after)
	for i := range results {
		results[i].Reason = exchange.InsufficientFunds
	}
	reply := r.AppendReply(nil, results, nil)
	// The buffer of the reply grows by a quarter, and is there twice for a moment.
	return int(after.TotalAlloc-before.TotalAlloc) + len(reply)*9/4
}
