package wire

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// twoOrders is a typical frame.
const twoOrders = `<transactions id="123456"><order sym="SPY" amount="100" limit="145.67"/>` +
	`<order sym="SPY" amount="-50" limit="145.68"/></transactions>`

// commonFrames returns frames that clients typically send, by the name of their contents.
func commonFrames() map[string][]byte {
	queries, orders := NewTransactions("123456"), NewTransactions("123456")
	for range 10 {
		queries.Query("1000001")
	}
	for range 50 {
		orders.Order("SPY", "100", "145.67").Order("SPY", "-50", "145.68")
	}
	declared := "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	return map[string][]byte{
		"order":     NewTransactions("123456").Order("SPY", "100", "145.67").Append(nil),
		"orders2":   []byte(twoOrders),
		"orders100": orders.Append(nil),
		"cancel":    NewTransactions("123456").Cancel("1000001").Append(nil),
		"query":     NewTransactions("123456").Query("1000001").Append(nil),
		"queries10": queries.Append(nil),
		"create": []byte(declared + "<create>\n  <account id=\"123456\" balance=\"1000\"/>\n  <symbol sym=\"SPY\">\n " +
			"   <account id=\"123456\">100000</account>\n  </symbol>\n</create>\n"),
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, frame := range commonFrames() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			var r Request
			for b.Loop() {
				r.Decode(frame, nil)
			}
			require.NotEmpty(b, r.Commands)
			require.Zero(b, r.Refused())
		})
	}
}

// BenchmarkDecodeOfManySenders decodes orders of 64 senders in turns into one request, as a server does.
func BenchmarkDecodeOfManySenders(b *testing.B) {
	const senders = 64
	var names [senders]exchange.Names
	var frames [2 * senders][]byte
	for i := range frames {
		account, symbol := strconv.Itoa(1000+i), "S"+strconv.Itoa(i%10)
		frames[i] = NewTransactions(account).Order(symbol, "100", "145.67").Append(nil)
	}
	b.ReportAllocs()
	var r Request
	for i := 0; b.Loop(); i++ {
		r.Decode(frames[i%len(frames)], &names[i%senders])
	}
	require.Len(b, r.Commands, 1)
}

func BenchmarkDecodeMemory(b *testing.B) {
	for name, frame := range commonFrames() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				DecodeMemory(frame)
			}
		})
	}
}

func BenchmarkAppendReply(b *testing.B) {
	fills := []exchange.Execution{{Shares: 200e8, Price: 127e8, Time: 1519348326_987654321},
		{Shares: 100e8, Price: 125e8, Time: 1519348326_987654321}}
	for name, c := range map[string]struct {
		frame   string
		results []exchange.Result
	}{
		"opened": {twoOrders, []exchange.Result{{Order: 1000001}, {Order: 1000002}}},
		"status": {`<transactions id="1"><query id="1000001"/><cancel id="1000002"/></transactions>`, []exchange.Result{
			{Status: exchange.Status{Open: 50e8, Executions: fills}},
			{Status: exchange.Status{Canceled: 50e8, CanceledAt: 1519348326_987654321, Executions: fills}}}},
		"error": {twoOrders, []exchange.Result{{Reason: exchange.InsufficientFunds}, {Reason: exchange.InsufficientShares}}},
	} {
		b.Run(name, func(b *testing.B) {
			var r Request
			r.Decode([]byte(c.frame), nil)
			reply := r.AppendReply(nil, c.results)
			b.ReportAllocs()
			b.SetBytes(int64(len(reply)))
			for b.Loop() {
				reply = r.AppendReply(reply[:0], c.results)
			}
		})
	}
}

func BenchmarkFrameInPlace(b *testing.B) {
	const reply = `<results><opened sym="SPY" amount="100" limit="145.67" id="1000001"/></results>`
	dst := make([]byte, 0, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		dst = FrameInPlace(append(dst[:0], reply...), 0)
	}
}

func BenchmarkFrameReader(b *testing.B) {
	frames := bytes.Repeat(AppendFrame(nil, []byte(twoOrders)), 1000)
	stream := bytes.NewReader(frames)
	f := NewFrameReader(stream, 4<<20)
	b.ReportAllocs()
	b.SetBytes(int64(len(twoOrders)))
	for b.Loop() {
		if !f.Buffered() && stream.Len() == 0 {
			stream.Reset(frames)
		}
		if _, err := f.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseReply(b *testing.B) {
	reply := []byte(newMarket().answer([]byte(setup)))
	b.ReportAllocs()
	b.SetBytes(int64(len(reply)))
	for b.Loop() {
		if _, err := ParseReply(reply); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeHostile measures frames of the largest size that are made to be expensive: the time must
// be proportional to the number of bytes.
func BenchmarkDecodeHostile(b *testing.B) {
	for name, part := range map[string]string{"attributes": ` a=""`, "nested": "<a>", "elements": "<a/>",
		"comments": "<!---->", "references": "&lt;"} {
		b.Run(name, func(b *testing.B) {
			start := "<create>"
			if name == "attributes" {
				start = "<create"
			}
			frame := []byte(start + strings.Repeat(part, (4<<20-len(start))/len(part)))
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			var r Request
			for b.Loop() {
				r.Decode(frame, nil)
			}
		})
	}
}
