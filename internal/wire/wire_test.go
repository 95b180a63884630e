package wire_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
	"outcry/internal/twin"
	"outcry/internal/wire"
)

// frames reads all frames of a stream and returns how it ended.
func frames(r io.Reader, max int) (all []string, err error) {
	f := wire.NewFrameReader(r, max)
	for {
		b, err := f.Next()
		if err != nil {
			return all, err
		}
		all = append(all, string(b))
	}
}

func TestFramesAreTakenAsTheyCome(t *testing.T) {
	for stream, want := range map[string][]string{
		"":                             nil,
		"\n\n  \r\n":                   nil,
		"3\nabc":                       {"abc"},
		"3\nabc0\n1\nx":                {"abc", "", "x"},
		"\n 003\r\nabc\n\n\r\n 1\nx\n": {"abc", "x"},
	} {
		got, err := frames(strings.NewReader(stream), 10)
		require.ErrorIs(t, err, io.EOF, "%q", stream)
		require.Equal(t, want, got, "%q", stream)
	}
	for _, stream := range []string{"3", "3\r", "3\n", "3\nab", "\r"} {
		_, err := frames(strings.NewReader(stream), 10)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", stream)
	}
	for _, stream := range []string{"x", "-1\nx", "+1\nx", "1 \nx", "1 1\nx", "1\rx", "\rx", "11\n", "0x1\n", "1.0\n", "\t1\nx", strings.Repeat("0", 2000) + "1\nx"} {
		got, err := frames(strings.NewReader("2\nok"+stream), 10)
		var bad *wire.FrameError
		require.ErrorAs(t, err, &bad, "%q", stream)
		require.Equal(t, []string{"ok"}, got, "%q", stream)
	}
}

func TestFramesDoNotDependOnHowTheyArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want []string
		for _, body := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 9000)).Draw(t, "bodies") {
			stream = append(stream, rapid.SampledFrom([]string{"", "\n", "  ", "\r\n", " \n\n"}).Draw(t, "blank")...)
			stream = wire.AppendFrame(stream, body)
			want = append(want, string(body))
		}
		for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream)),
			iotest.HalfReader(bytes.NewReader(stream)), iotest.DataErrReader(bytes.NewReader(stream))} {
			got, err := frames(r, 10_000)
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			require.Equal(t, want, got)
		}
	})
}

func TestBufferedTellsWhetherNextWouldWait(t *testing.T) {
	r, w := io.Pipe()
	f := wire.NewFrameReader(r, 100)
	go func() { _, _ = w.Write([]byte("1\na1\nb 1")) }()
	require.False(t, f.InFrame())
	frame, err := f.Next()
	require.NoError(t, err)
	require.Equal(t, "a", string(frame))
	require.True(t, f.Buffered())
	frame, err = f.Next()
	require.NoError(t, err)
	require.Equal(t, "b", string(frame))
	require.False(t, f.Buffered())
	require.True(t, f.InFrame(), "a length line has begun")
}

func TestALengthAllocatesNothing(t *testing.T) {
	f := wire.NewFrameReader(strings.NewReader("1000000000\nx"), 1<<30)
	allocated := testing.AllocsPerRun(1, func() {
		_, err := f.Next()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	require.Less(t, allocated, 10.0)
}

// answer decodes a frame, pretends that every command was done, and replies.
func answer(frame []byte) string {
	var r wire.Request
	r.Decode(frame)
	return string(r.AppendReply(nil, make([]exchange.Result, len(r.Commands))))
}

func TestCommandsAreWhatWasAsked(t *testing.T) {
	var r wire.Request
	r.Decode([]byte(`<create><account id="1" balance="2.5"/><symbol sym="S"><account id="1"> 3 </account></symbol><symbol sym="T"/></create>`))
	require.Equal(t, []exchange.Command{
		{Kind: exchange.OpenAccount, Account: "1", Balance: cash(t, "2.5")},
		{Kind: exchange.MakeSymbol, Symbol: "S"},
		{Kind: exchange.PlaceShares, Symbol: "S", Account: "1", Placed: exchange.Shares(3e8).Position()},
		{Kind: exchange.MakeSymbol, Symbol: "T"},
	}, r.Commands)
	r.Decode([]byte(`<transactions account="7"><order sym="S" amount="-1.5" limit="2"/><query id="05"/><cancel id="6"/></transactions>`))
	require.Equal(t, []exchange.Command{
		{Kind: exchange.PlaceOrder, Account: "7", Symbol: "S", Side: exchange.Sell, Shares: 1.5e8, Limit: 2e8},
		{Kind: exchange.QueryOrder, Account: "7", Order: 5},
		{Kind: exchange.CancelOrder, Account: "7", Order: 6},
	}, r.Commands, "a request is used again")
	require.Zero(t, r.Refused())
	r.Decode([]byte(`<transactions id="7"><order/><query id="5"/><x/></transactions>`))
	require.Equal(t, 2, r.Refused())
	r.Decode([]byte(`<`))
	require.Equal(t, 1, r.Refused())
	require.Empty(t, r.Commands)
}

func cash(t *testing.T, s string) exchange.Cash {
	c, err := exchange.ParseBalance(s)
	require.NoError(t, err)
	return c
}

// TestEveryReasonHasItsText: a refusal says why and with which value.
func TestEveryReasonHasItsText(t *testing.T) {
	frame := []byte(`<transactions id="12"><order sym="SPY" amount="3" limit="7"/></transactions>`)
	seen := map[string]bool{}
	for reason := exchange.AccountExists; reason <= exchange.HistoryUnavailable; reason++ {
		var r wire.Request
		r.Decode(frame)
		reply := r.AppendReply(nil, []exchange.Result{{Reason: reason, CashHave: cash(t, "20.5")}})
		answers, err := wire.ParseReply(reply)
		require.NoError(t, err)
		require.Len(t, answers, 1)
		a := answers[0]
		require.Equal(t, [4]string{"error", "SPY", "3", "7"}, [4]string{a.Kind, a.Sym, a.Amount, a.Limit})
		require.NotContains(t, a.Error, "refused: ", "%s has no text", reason)
		require.False(t, seen[a.Error], a.Error)
		seen[a.Error] = true
	}
	require.True(t, seen["insufficient funds: 3 at 7 need 21, account 12 has 20.5"])
}

func TestLimitsOfADocument(t *testing.T) {
	for what, frame := range map[string]string{
		"more than 100000 elements":   "<create>" + strings.Repeat("<a/>", 100_000) + "</create>",
		"nested more than 16 deep":    strings.Repeat("<a>", 17) + strings.Repeat("</a>", 17),
		"more than 32 attributes":     "<create " + attributes(33) + "/>",
		"attribute a0 is given twice": `<create a0="" ` + attributes(3) + `/>`,
	} {
		reply := answer([]byte(frame))
		require.Contains(t, reply, "<results><error>malformed XML: ", what)
		require.Contains(t, reply, what)
	}
	require.Equal(t, 99_999, strings.Count(answer([]byte("<create>"+strings.Repeat("<a/>", 99_999)+"</create>")), "<error>"))
	require.Contains(t, answer([]byte("<create "+attributes(32)+"/>")), "has no attribute a0")
}

func attributes(n int) string {
	s := ""
	for i := range n {
		s += fmt.Sprintf(`a%d="" `, i)
	}
	return s
}

func TestTextsAreOneBoundedLine(t *testing.T) {
	for _, frame := range []string{
		`<transactions id="1"><query id="` + strings.Repeat("x\n&amp;&lt;", 100_000) + `"/></transactions>`,
		`<` + strings.Repeat("é", 100_000) + `/>`, `<create ` + strings.Repeat("ü", 90_000) + `="1"/>`,
		"<create>\xff</create>", `<transactions id="&#xFFFD;&#x85;"><query/></transactions>`, "<?xml version='1.0' encoding='" + strings.Repeat("x", 5000) + "'?><create/>",
	} {
		for _, text := range twin.Texts([]byte(answer([]byte(frame)))) {
			require.NotEmpty(t, text)
			require.Less(t, len(text), 600)
			require.NotContains(t, text, "\n")
		}
	}
}

func TestClientsReadBackWhatTheySend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching("[ -~\t\n\réäß]{0,20}")
		id, sym, amount, limit := value.Draw(t, "id"), value.Draw(t, "sym"), value.Draw(t, "amount"), value.Draw(t, "limit")
		frame := wire.NewTransactions("x").Order(sym, amount, limit).Query(id).Cancel(id).Append(nil)
		answers, err := wire.ParseReply([]byte(answer(frame)))
		require.NoError(t, err)
		require.Len(t, answers, 3)
		for _, a := range answers {
			require.Equal(t, "error", a.Kind)
		}
		require.Equal(t, [3]string{sym, amount, limit}, [3]string{answers[0].Sym, answers[0].Amount, answers[0].Limit})
		require.Equal(t, id, answers[1].ID)
		require.Equal(t, id, answers[2].ID)
		frame = new(wire.Create).Account(wire.Account{ID: id, Balance: "x"}).Symbol("?", wire.Placement{Account: id, Shares: "1"}).Append(nil)
		answers, err = wire.ParseReply([]byte(answer(frame)))
		require.NoError(t, err)
		require.Equal(t, [2]string{id, id}, [2]string{answers[0].ID, answers[1].ID})
	})
}

func TestRepliesOfOthersAreRefused(t *testing.T) {
	for reply, want := range map[string]string{
		"<results>": "not closed", "<other/>": "<other>", "<results><other/></results>": "<other>",
		`<results><error color="red">x</error></results>`:          "color",
		`<results><status id="1"><x/></status></results>`:          "<x>",
		`<results><status id="1"><open n="1"/></status></results>`: "n",
	} {
		_, err := wire.ParseReply([]byte(reply))
		require.ErrorContains(t, err, want, reply)
	}
}

// seeds are the documents of all transcripts.
func seeds(f *testing.F) {
	all, err := twin.Transcripts()
	require.NoError(f, err)
	for _, transcript := range all {
		for _, step := range transcript.Steps {
			if len(step.Send) < 10_000 {
				f.Add(step.Send)
			}
		}
	}
}

// FuzzDecode: whatever comes, the reply is a well-formed <results>, the places in
// it do not depend on the outcome, and a request can be used again.
func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		var r wire.Request
		r.Decode([]byte(`<create><account id="1" balance="1"/></create>`))
		r.Decode(frame)
		for _, reason := range []exchange.RejectReason{exchange.OK, exchange.UnknownAccount} {
			results := make([]exchange.Result, len(r.Commands))
			for i := range results {
				results[i].Reason = reason
			}
			reply := r.AppendReply(nil, results)
			if err := wellFormed(reply); err != nil {
				t.Fatalf("%q is answered with %q: %v", frame, reply, err)
			}
			if !bytes.HasPrefix(reply, []byte("<results")) {
				t.Fatalf("%q is answered with %q", frame, reply)
			}
		}
	})
}

func wellFormed(b []byte) error {
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// FuzzFrames: a stream gives the same frames however it arrives, and never more
// bytes than it has.
func FuzzFrames(f *testing.F) {
	seeds(f)
	f.Add([]byte("9\n<create/>\r\n 0009\r\n<create/>3\nab"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, err := frames(bytes.NewReader(stream), 1000)
		single, err2 := frames(iotest.OneByteReader(bytes.NewReader(stream)), 1000)
		// The text of an error shows what had arrived by then.
		if fmt.Sprintf("%q %T", whole, err) != fmt.Sprintf("%q %T", single, err2) {
			t.Fatalf("%q gives %q (%v), byte by byte %q (%v)", stream, whole, err, single, err2)
		}
		if len(strings.Join(whole, "")) > len(stream) {
			t.Fatalf("%q gives %q", stream, whole)
		}
	})
}

func ExampleRequest() {
	var r wire.Request
	r.Decode([]byte(`<transactions id="1"><order sym="SPY" amount="100" limit="145.67"/><query id="x"/></transactions>`))
	// An engine would execute the commands.
	results := []exchange.Result{{Order: 7}}
	fmt.Printf("%s\n", r.AppendReply(nil, results))
	// Output:
	// <results><opened sym="SPY" amount="100" limit="145.67" id="7"/><error id="x">order id "x" is not a whole number</error></results>
}

var twoElements = []byte(`<?xml version="1.0" encoding="UTF-8"?><transactions id="1"><order sym="SPY" amount="100" limit="145.67"/></transactions>`)

func BenchmarkDecode(b *testing.B) {
	var r wire.Request
	b.ReportAllocs()
	for b.Loop() {
		r.Decode(twoElements)
	}
}

func BenchmarkReply(b *testing.B) {
	var r wire.Request
	r.Decode(twoElements)
	results := []exchange.Result{{Order: 7}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = r.AppendReply(buf[:0], results)
	}
}
