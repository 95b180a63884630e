package wire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/budget"
)

// costly are documents that use much memory for their size. Each consists of a start, a part to be
// repeated, and an end.
var costly = map[string][3]string{
	"attributes of one element": {"<create", ` a=""`, ""},
	"32 attributes":             {"<create>", "<a" + attributes(attributesMax) + "/>", "</create>"},
	"empty elements":            {"<create>", "<a/>", "</create>"},
	"unknown transactions":      {`<transactions id="1">`, "<a/>", "</transactions>"},
	"orders without anything":   {`<transactions id="1">`, "<order/>", "</transactions>"},
	"queries":                   {`<transactions id="1">`, `<query id="1"/>`, "</transactions>"},
	"orders": {`<transactions id="` + strings.Repeat("9", exchange.AccountDigitsMax) + `">`,
		`<order sym="A" amount="1" limit="1"/>`, "</transactions>"},
	"orders with an end tag": {`<transactions id="1">`, `<order sym="SPY" amount="1" limit="1"></order>`,
		"</transactions>"},
	"orders of nobody": {"<transactions>", `<order sym="" amount="" limit="" id=""/>`, "</transactions>"},
	"orders of a bad symbol": {`<transactions id="1">`, `<order sym="` + strings.Repeat("?", 72) +
		`" amount="" limit=""/>`, "</transactions>"},
	"orders with all attributes": {`<transactions id="1">`, `<order sym="A" amount="1" type="market" tif="IOC" ` +
		`post="no" stp="both" cod="yes" report="full" ref="r"/>`, "</transactions>"},
	"quotes in all attributes": {`<transactions id="1">`, "<order" + quotes("sym", "amount", "limit", "type", "tif",
		"post", "stp", "cod", "report", "tick", "lot", "seconds", "after", "id", "ref", "newref") + "/>", "</transactions>"},
	"amends":             {`<transactions id="1">`, `<amend ref="r" amount="1" newref="r"/>`, "</transactions>"},
	"cancels of all":     {`<transactions id="1">`, `<cancel-all/>`, "</transactions>"},
	"switches":           {`<transactions id="1">`, `<cancel-after seconds="1"/>`, "</transactions>"},
	"accounts seen":      {`<transactions id="1">`, `<account/>`, "</transactions>"},
	"lists":              {`<transactions id="1">`, `<fills after="1"/>`, "</transactions>"},
	"a session":          {"<session", ` cancel="disconnect"`, "/>"},
	"symbols with rules": {"<create>", `<symbol sym="A" tick="1"/>`, "</create>"},
	"placements with rules": {`<create><symbol sym="` + strings.Repeat("A", exchange.SymbolCharsMax) +
		`" tick="1" lot="1">`, `<account id="1">1</account>`, "</symbol></create>"},
	"rules and a placement": {"<create>", `<symbol sym="A" tick="1"><account id="1">1</account></symbol>`, "</create>"},
	"symbols":               {"<create>", `<symbol sym="A"/>`, "</create>"},
	"symbols with accounts": {"<create>", `<symbol sym="A"><account id="1">1</account></symbol>`, "</create>"},
	"accounts":              {"<create>", `<account id="1" balance="1"/>`, "</create>"},
	"quotes":                {`<transactions id="1">`, `<a id='""""""""""""""""'/>`, "</transactions>"},
	"quotes in all values": {`<transactions id="1">`, "<order" + quotes("sym", "amount", "limit", "id", "ref") + "/>",
		"</transactions>"},
	"one value of quotes": {`<transactions id="1"><a id='`, `"`, `'/></transactions>`},
	"one long value":      {`<transactions id="1"><a id='`, "x", `'/></transactions>`},
	// The comment at the end makes the scanner give up late, so that both decoders decode everything.
	"a comment at the end": {`<transactions id="1">`, `<query id="1"/>`, "<!----></transactions>"},
	"placements, a comment": {`<create><symbol sym="` + strings.Repeat("A", exchange.SymbolCharsMax) + `">`,
		`<account id="1">1</account>`, "<!----></symbol></create>"},
	"one long name":          {"<", "x", "/>"},
	"one long text":          {"<create>", "x", "</create>"},
	"one long comment":       {"<create><!--", "x", "--></create>"},
	"one long instruction":   {"<?a ", "x", "?><create/>"},
	"one long directive":     {"<!DOCTYPE ", "x", ">"},
	"comments":               {"<create>", "<!---->", "</create>"},
	"comments between texts": {"<create>", "x<!---->", "</create>"},
	"references":             {"<create>", "&lt;", "</create>"},
	"instructions":           {"<create>", "<?a?>", "</create>"},
	"character data":         {"<create>", "<![CDATA[]]>", "</create>"},
	"in a bad symbol": {`<create><symbol sym="` + strings.Repeat("&quot;", 200) + `">`, "<a/>",
		"</symbol></create>"},
	"in one not cut": {`<create><symbol sym="` + strings.Repeat("&quot;", echoBytesMax) + `">`, "<a/>",
		"</symbol></create>"},
	"accounts in a bad symbol": {`<create><symbol sym="` + strings.Repeat("&amp;", 200) + `">`,
		`<account id="1">1</account>`, "</symbol></create>"},
	"a long symbol": {`<create><symbol sym="` + strings.Repeat("A", 50_000) + `">`, "<a/>",
		"</symbol></create>"},
	"of a bad account": {`<transactions id="` + strings.Repeat("&amp;", 200) + `">`, "<a/>", "</transactions>"},
	"names in a bad symbol": {`<create><symbol sym="` + strings.Repeat("&quot;", 200) + `">`, "<a" +
		strings.Repeat("x", 200) + "/>", "</symbol></create>"},
	"long numbers": {`<transactions id="1">`, `<order sym="A" amount="` + strings.Repeat("0", 900) +
		`1" limit="` + strings.Repeat("0", 900) + `1"/>`, "</transactions>"},
	"orders, a comment": {`<transactions id="` + strings.Repeat("9", exchange.AccountDigitsMax) + `">`,
		`<order sym="A" amount="1" limit="1"/>`, "<!----></transactions>"},
	"nested":   {"<create>", "<a>", ""},
	"no XML":   {"", "0", ""},
	"no UTF-8": {"", "\xff", ""},
}

// quotes returns attributes that consist of quotation marks, which are longer in a reply. Each value has the
// maximum length at which a rejected value is repeated in full.
func quotes(names ...string) (attributes string) {
	for _, name := range names {
		attributes += fmt.Sprintf(" %s='%s'", name, strings.Repeat(`"`, echoBytesMax))
	}
	return attributes
}

// fill returns the document with its part repeated, so that it has about the given number of bytes.
func fill(document [3]string, bytes int) []byte {
	start, part, end := document[0], document[1], document[2]
	return []byte(start + strings.Repeat(part, max(1, (bytes-len(start)-len(end))/len(part))) + end)
}

func TestDecodeMemoryCoversEveryFrame(t *testing.T) {
	most, of := 0.0, ""
	for name, document := range costly {
		for _, size := range []int{1, budget.Of(30_000), budget.Of(120_000)} {
			frame := fill(document, size)
			taken := memoryOf(frame)
			for i := 0; i < 3 && taken > DecodeMemory(frame); i++ {
				taken = memoryOf(frame) // measure again: the runtime may have allocated in the background
			}
			require.LessOrEqual(t, taken, DecodeMemory(frame), "%s: %d bytes", name, len(frame))
			require.LessOrEqual(t, longestReply(frame), ReplyMax(frame), "%s: %d bytes", name, len(frame))
			if ratio := float64(taken) / float64(len(frame)); size > 1000 && ratio > most {
				most, of = ratio, name
			}
		}
	}
	t.Logf("most memory for a byte of XML: %.0f bytes, %s", most, of)
}

// TestAFrameOfAllElementsIsKnownBefore: DecodeMemory covers a frame with the maximum number of elements.
func TestAFrameOfAllElementsIsKnownBefore(t *testing.T) {
	document := costly["accounts in a bad symbol"]
	frame := []byte(document[0] + strings.Repeat(document[1], ElementsMax-2) + document[2])
	require.LessOrEqual(t, memoryOf(frame), DecodeMemory(frame))
	longest := longestReply(frame)
	require.LessOrEqual(t, longest, ReplyMax(frame))
	require.Greater(t, longest, ElementsMax*errorBytesMax, "each element has an error of the longest text")
}

// TestNoFrameTakesMoreThanIsKnownBefore checks DecodeMemory with random frames made of expensive parts: names,
// values and texts of any length, plain or as references, in every possible place.
func TestNoFrameTakesMoreThanIsKnownBefore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range budget.Of(50) {
		frame := hostile(r)
		taken := memoryOf(frame)
		for i := 0; i < 3 && taken > DecodeMemory(frame); i++ {
			taken = memoryOf(frame) // measure again, as in TestDecodeMemoryCoversEveryFrame
		}
		require.LessOrEqual(t, taken, DecodeMemory(frame), "%d bytes: %.2000s", len(frame), frame)
		require.LessOrEqual(t, longestReply(frame), ReplyMax(frame), "%d bytes: %.2000s", len(frame), frame)
	}
}

// hostile returns a random frame of up to several hundred thousand bytes.
func hostile(r *rand.Rand) []byte {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	value := func() string {
		most := []int{1, 40, 130, 3000, 100_000}[min(r.IntN(14), 4)] // maximum of the lengths that are drawn below
		if most == 100_000 && r.IntN(8) > 0 {
			most = 70
		}
		return strings.Repeat(pick("A", "1", "0", "-", "&amp;", "&quot;", "&#34;", "&#x22;", "&lt;", "é", "\U0001f600",
			"&#x1F600;", " "), r.IntN(most+1))
	}
	element := func(names ...string) string {
		s := pick(names...)
		for _, name := range []string{"sym", "amount", "limit", "id", "ref", "balance", "tif", "tick", "newref",
			strings.Repeat("x", 1+r.IntN(200))} {
			if r.IntN(3) == 0 {
				s += fmt.Sprintf(` %s="%s"`, name, value())
			}
		}
		return s
	}
	good := []string{`<order sym="A" amount="1" limit="1"/>`, `<query id="1"/>`, `<cancel ref="r"/>`,
		`<account id="1" balance="1"/>`,
		`<symbol sym="A"/>`, `<symbol sym="A" lot="1"/>`, `<amend id="1" limit="1" newref="n"/>`, `<cancel-all/>`,
		`<fills after="9"/>`, `<account id="1">1</account>`, "<a/>", "<!---->", "x", "<![CDATA[]]>", "<?a?>"}
	children := func() (s string) {
		child := pick(good...)
		if r.IntN(2) == 0 {
			child = "<" + element("order", "query", "cancel", "amend", "account", "symbol", "x") + "/>"
		}
		return strings.Repeat(child, 1+r.IntN(min(5_000, 1+50_000/len(child))))
	}
	inside := children() + children()
	root := pick("create", "transactions", "transactions id='1'", element("transactions"))
	if r.IntN(2) == 0 {
		root, inside = "create", "<"+element("symbol", "symbol sym='A'")+">"+inside+"</symbol>"
	}
	return []byte("<" + root + ">" + inside + "</" + strings.Fields(root)[0] + ">")
}

// longestReply returns the length of the longest reply to a frame over all results in worst.
func longestReply(frame []byte) (most int) {
	var r Request
	r.Decode(frame, nil)
	for _, result := range append(worst, exchange.Result{Order: math.MaxUint64, Answer: anyAnswer,
		Amended: &exchange.Amended{By: math.MaxUint64}, Status: exchange.Status{Open: math.MaxInt64,
			Canceled: math.MaxInt64, CanceledAt: math.MinInt64, Changes: &exchange.Changes{Replaced: math.MaxUint64,
				Reduced: math.MaxInt64, ReducedAt: math.MinInt64}}}, exchange.Result{Order: math.MaxUint64, Answer: anyAnswer,
		Amended: &exchange.Amended{Open: math.MaxInt64, Reduced: math.MaxInt64, Time: math.MinInt64}}) {
		most = max(most, len(r.AppendReply(nil, slices.Repeat([]exchange.Result{result}, len(r.Commands)))))
	}
	return most
}

// worst are rejects with the longest texts.
var worst = []exchange.Result{
	{Reason: exchange.InsufficientFunds},
	{Reason: exchange.RulesDiffer},
	{Reason: exchange.Halted, Details: &exchange.RejectDetails{Halt: &exchange.Halt{
		Reason: strings.Repeat("&", exchange.HaltReasonCharsMax)}}},
}

// memoryOf returns how many bytes are allocated to decode and answer a frame, including garbage, if all its
// commands are rejected with a long text.
func memoryOf(frame []byte) (most int) {
	for _, result := range worst {
		var before, after runtime.MemStats
		var r Request
		runtime.ReadMemStats(&before)
		r.Decode(frame, nil)
		commands := append([]exchange.Command(nil), r.Commands...) // a session copies the commands of several frames
		results := make([]exchange.Result, len(commands))
		runtime.ReadMemStats(&after)
		for i := range results {
			results[i] = result
		}
		reply := r.AppendReply(nil, results)
		// The reply's buffer grows in steps of a quarter and briefly exists twice.
		most = max(most, int(after.TotalAlloc-before.TotalAlloc)+len(reply)*9/4)
	}
	return most
}
