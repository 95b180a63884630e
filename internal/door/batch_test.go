package door

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// TestABatchTakesNoMoreThanItsCodecSays decodes frames that need much memory for their size, and answers them
// with long errors. All allocations for that, garbage included, must stay within what Codec.Memory returned.
func TestABatchTakesNoMoreThanItsCodecSays(t *testing.T) {
	for name, document := range map[string][3]string{
		"queries": {`<transactions id="1">`, `<query id="1"/>`, "</transactions>"},
		// in this frame the comment comes last, so that both decoders decode all queries
		"queries, a comment": {`<transactions id="1">`, `<query id="1"/>`, "<!----></transactions>"},
		"orders":             {`<transactions id="1">`, `<order sym="A" amount="1" limit="1"/>`, "</transactions>"},
		"accounts":           {"<create>", `<account id="1" balance="1"/>`, "</create>"},
		"placements": {`<create><symbol sym="` + strings.Repeat("A", exchange.SymbolCharsMax) + `">`,
			`<account id="1">1</account>`, "<!----></symbol></create>"},
		"symbols with accounts": {"<create>", `<symbol sym="A"><account id="1">1</account></symbol>`, "</create>"},
	} {
		frame := []byte(document[0] + strings.Repeat(document[1], 30_000/len(document[1])) + document[2])
		taken := memoryOfBatch(frame)
		for i := 0; i < 3 && taken > xmlCodec.Memory(frame); i++ {
			taken = memoryOfBatch(frame) // the runtime may allocate at the same time
		}
		require.LessOrEqual(t, taken, xmlCodec.Memory(frame), "%s: %d bytes", name, len(frame))
	}
}

// memoryOfBatch returns the bytes that a batch of one frame allocates, garbage included, if all its commands
// are refused with a long text.
func memoryOfBatch(frame []byte) int {
	s := New(newFake(), Options{})
	b, r := s.takeBatch(xmlCodec), s.newReply(engine.Mark{}, time.Time{})
	halt := &exchange.Halt{Reason: strings.Repeat("&", exchange.HaltReasonCharsMax)}
	var before, after runtime.MemStats
	b.judge = s.Request(nil).judge()
	runtime.ReadMemStats(&before)
	b.add(frame, false)
	b.results = make([]exchange.Result, len(b.commands))
	runtime.ReadMemStats(&after)
	for i := range b.results {
		b.results[i] = exchange.Result{Reason: exchange.Halted, Details: &exchange.RejectDetails{Halt: halt}}
	}
	b.memory = s.working
	b.appendReply(context.Background(), r, 0)
	// The buffer of the reply grows by a quarter each time, and exists twice while it is copied.
	return int(after.TotalAlloc-before.TotalAlloc) + len(r.bytes)*9/4
}
