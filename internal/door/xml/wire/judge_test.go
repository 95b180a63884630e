package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// replyWithout decodes a frame and lets deny judge its commands; deny returns the text of a refusal, or "".
// replyWithout returns the reply and the remaining commands.
func replyWithout(frame string, deny func(*exchange.Command) string) (reply, left string) {
	var r Request
	r.Decode([]byte(frame), nil)
	r.Judge(func(c *exchange.Command) exchange.Refusal { return refusalOf(deny(c)) })
	results := make([]exchange.Result, len(r.Commands))
	for i := range r.Commands {
		left += fmt.Sprintf("%s%s%s ", r.Commands[i].Kind, r.Commands[i].Account, r.Commands[i].Symbol)
		results[i].Order = exchange.OrderID(100 + i)
	}
	return string(r.AppendReply(nil, results)), strings.TrimSpace(left)
}

// refusalOf returns a refusal with the text, or no refusal if the text is "".
func refusalOf(text string) (refusal exchange.Refusal) {
	if text != "" {
		refusal = exchange.Refusal{Reason: exchange.NotAllowed, Text: text}
	}
	return refusal
}

func TestADeniedCommandHasItsErrorInItsPlace(t *testing.T) {
	frame := `<transactions id="1"><order sym="A" amount="1" limit="2"/><query id="7"/>` +
		`<order sym="B" amount="x" limit="2"/><cancel id="8"/><order sym="C" amount="1" limit="2"/></transactions>`
	// Test both decoders, because they store repeated attributes differently: the comment forces encoding/xml.
	for _, frame := range []string{frame, strings.Replace(frame, "<query", "<!-- --><query", 1)} {
		reply, left := replyWithout(frame, func(c *exchange.Command) string {
			if c.Kind == exchange.CancelOrder || c.Symbol == "A" {
				return "not <you>"
			}
			return ""
		})
		require.Equal(t, "query1 order1C", left)
		require.Contains(t, reply, `<results><error sym="A" amount="1" limit="2">not &lt;you&gt;</error><status id="7">`+
			`</status><error sym="B" amount="x" limit="2">`)
		require.True(t, strings.HasSuffix(reply,
			`<error id="8">not &lt;you&gt;</error><opened sym="C" amount="1" limit="2" id="101"/></results>`), reply)
	}
}

func TestWhatIsDeniedInASymbolLeavesTheRest(t *testing.T) {
	frame := `<create><symbol sym="S"><account id="1">5</account><account id="2">6</account></symbol>` +
		`<account id="3" balance="1"/><symbol sym="T"/></create>`
	deny := func(who func(*exchange.Command) bool) func(*exchange.Command) string {
		return func(c *exchange.Command) string {
			if who(c) {
				return "no"
			}
			return ""
		}
	}
	reply, left := replyWithout(frame, deny(func(c *exchange.Command) bool { return c.Account == "1" }))
	require.Equal(t, "symbolS place2S account3 symbolT", left)
	require.Equal(t, `<results><error sym="S" id="1">no</error><created sym="S" id="2"/><created id="3"/>`+
		`<created sym="T"/></results>`, reply)
	reply, left = replyWithout(frame, deny(func(c *exchange.Command) bool { return c.Kind == exchange.MakeSymbol }))
	require.Equal(t, "place1S place2S account3", left)
	require.Equal(t, `<results><created sym="S" id="1"/><created sym="S" id="2"/><created id="3"/>`+
		`<error sym="T">no</error></results>`, reply)
	reply, left = replyWithout(frame, deny(func(*exchange.Command) bool { return true }))
	require.Empty(t, left)
	require.Equal(t, `<results><error sym="S" id="1">no</error><error sym="S" id="2">no</error>`+
		`<error id="3">no</error><error sym="T">no</error></results>`, reply)
}

func TestDeniedCommandsAreNoMalformedOnes(t *testing.T) {
	var r Request
	r.Decode([]byte(`<transactions id="1"><query id="1"/><query id="x"/></transactions>`), nil)
	require.Equal(t, 1, r.Judge(func(*exchange.Command) exchange.Refusal { return refusalOf("no") }))
	require.Equal(t, 1, r.Refused())
	require.Empty(t, r.Commands)
	r.Decode([]byte(`<transactions id="1"><query id="1"/></transactions>`), nil)
	require.Zero(t, r.Refused(), "the next frame knows nothing of it")
	require.Zero(t, r.Judge(func(*exchange.Command) exchange.Refusal { return refusalOf("") }))
	require.Len(t, r.Commands, 1)
}

func TestAFrameWithATokenIsNothingElse(t *testing.T) {
	token, ok := DecodeAuth(AppendAuth(nil, `t"<&`))
	require.True(t, ok)
	require.Equal(t, `t"<&`, token)
	for frame, want := range map[string]bool{
		`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<auth token="T"></auth>`: true,
		``: false, `<auth/>`: false, `<auth token="T" id="1"/>`: false, `<auth token="T">x</auth>`: false,
		`<auth token="T"><order/></auth>`: false, `<AUTH token="T"/>`: false, `<auth token="T"/><auth token="T"/>`: false,
		`<create/>`: false, `<auth token="T" token="T"/>`: false, `<!DOCTYPE x><auth token="T"/>`: false,
	} {
		token, ok := DecodeAuth([]byte(frame))
		require.Equal(t, want, ok, frame)
		require.Equal(t, want, token == "T", frame)
	}
	var r Request
	r.Decode(AppendAuth(nil, "secret"), nil)
	reply := string(r.AppendReply(nil, nil))
	require.Contains(t, reply, "unknown root element &lt;auth&gt;", "version 1 knows no such frame")
	require.NotContains(t, reply, "secret")
	require.True(t, IsAuthorized(AppendAuthorized(nil)))
	require.False(t, IsAuthorized([]byte(reply)))
}

// TestAnAnswerToATokenIsToldByItsText: clients recognize the answers to <auth> by the protocol's texts.
func TestAnAnswerToATokenIsToldByItsText(t *testing.T) {
	var withoutTokens Request
	withoutTokens.Decode(AppendAuth(nil, "secret"), nil)
	for want, replies := range map[bool][]string{
		true: {string(AppendError(nil, TextUnauthorized)), string(AppendError(nil, TextUnauthorized+" (connection 7)")),
			string(withoutTokens.AppendReply(nil, nil))},
		false: {string(AppendError(nil, "the exchange is stopping")),
			string(AppendError(nil, "the exchange has 2 connections and accepts no more; try again later"))},
	} {
		for _, reply := range replies {
			answers, err := ParseReply([]byte(reply))
			require.NoError(t, err)
			require.Equal(t, want, IsUnauthorized(answers[0].Error), reply)
		}
	}
	page, err := os.ReadFile("../../../../docs/PROTOCOL.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "\n    "+TextUnauthorized+"\n")
}

func FuzzAuthFrame(f *testing.F) {
	f.Add([]byte(`<auth token="T"/>`), "T")
	f.Add([]byte(`<auth token='&quot;'></auth>`), `"`)
	f.Fuzz(func(t *testing.T, frame []byte, token string) {
		_, _ = DecodeAuth(frame) // must not panic on any frame
		if got, ok := DecodeAuth(AppendAuth(nil, token)); ok {
			require.Equal(t, token, got)
		}
	})
}

func TestWhoMayNotSendAFrameIsNotToldWhatIsWrongWithIt(t *testing.T) {
	for frame, want := range map[string]string{
		`<create><symbol sym="` + strings.Repeat("A", 1000) +
			`"><account id="1">1</account><x/></symbol>` +
			`<account id="1" balance="1"/></create>`: `<results><error>no</error><error>no</error><created id="1"/></results>`,
		`<transactions id="7"><order sym="A" amount="x" limit="1"/>` +
			`<query id="1"/></transactions>`: `<results><error>no</error><status id="1"></status></results>`,
		`<transactions id="8"><order sym="A" amount="x" limit="1"/>` +
			`</transactions>`: `<results><error sym="A" amount="x" limit="1">amount "x" is not a decimal number</error>` +
			`</results>`,
		`<transactions id="x">` +
			`<query id="1"/></transactions>`: `<results><error id="1">account id "x" is not made of digits</error></results>`,
		`<create color="red"/>`: `<results><error>&lt;create&gt; has no attribute color</error></results>`,
	} {
		var r Request
		r.Decode([]byte(frame), nil)
		r.JudgeMalformed(func(c *exchange.Command) exchange.Refusal {
			if c.Kind == exchange.OpenAccount || c.Account == "7" {
				return refusalOf("no")
			}
			return refusalOf("")
		})
		require.Equal(t, want, string(r.AppendReply(nil, make([]exchange.Result, len(r.Commands)))))
	}
}

// TestAFrameWithoutMistakesIsJudgedWithoutGarbage: JudgeMalformed runs on every frame if the exchange uses
// tokens, so it must not allocate for frames without errors.
func TestAFrameWithoutMistakesIsJudgedWithoutGarbage(t *testing.T) {
	var r Request
	r.Decode([]byte(`<transactions id="1"><query id="7"/></transactions>`), nil)
	judge := func(*exchange.Command) exchange.Refusal { return exchange.Refusal{} }
	require.Zero(t, testing.AllocsPerRun(100, func() { r.JudgeMalformed(judge) }))
}
