package client

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// The frames of these tests, and the error reply to a frame that is too large.
const (
	probing  = `<create/>`
	poisoned = `<transactions id="1"><order sym="BAD" amount="1" limit="1" ref="r"/></transactions>`
	harmless = `<transactions id="1"><order sym="SPY" amount="1" limit="1"/></transactions>`
	tooLarge = "<error>a frame of 86 bytes is over the limit of 80</error>"
)

// strict answers frames like honest, until it gets one that is too large.
func strict(seen *frames) func(p *peer) {
	return func(p *peer) {
		for xml, ok := p.readFrame(); ok; xml, ok = p.readFrame() {
			seen.add(xml)
			switch {
			case xml == probing:
				p.say("")
			case xml == poisoned:
				p.say(tooLarge)
				return
			case strings.Contains(xml, "<query"):
				p.say(status("7"))
			default:
				p.say(bought("1", "3"))
			}
		}
	}
}

// TestAFrameThatBreaksConnectionsBreaksTwo: a frame whose connection breaks is resent once, alone, on a connection
// that has just answered a probe; after a second break it fails. No other call fails with it.
func TestAFrameThatBreaksConnectionsBreaksTwo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := open(t, played(t, Options{}, strict(&seen)))
		bad := send(t, c, Buy("1", "BAD", Whole(1), Whole(1)).WithRef("r"))
		beside := send(t, c, Query("1", 7))
		first := broken(t, bad)
		require.Equal(t, &LastWords{Text: "a frame of 86 bytes is over the limit of 80"}, first.Err)
		require.True(t, first.MaybeDone)
		for range 3 {
			_, err := c.Order(background, buys(1))
			require.NoError(t, err)
		}
		require.Equal(t, Whole(5), answered(t, beside)[0].Status.Open)
		sent := slices.DeleteFunc(seen.all(), func(xml string) bool { return strings.Contains(xml, "query") })
		require.Equal(t, []string{poisoned, probing, poisoned, harmless, harmless, harmless}, sent)
	})
}

// TestNobodyBreaksWithASuspect: an order without a ref that is queued after a suspect is sent only once the suspect
// has ended.
func TestNobodyBreaksWithASuspect(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		c := open(t, played(t, Options{}, func(p *peer) {
			p.readFrame()
			p.say(tooLarge)
		}, strict(&seen)))
		bad := send(t, c, Buy("1", "BAD", Whole(1), Whole(1)).WithRef("r"))
		time.Sleep(time.Millisecond) // before the next connection is made
		behind := []*Call{send(t, c, buys(1)), send(t, c, buys(1))}
		broken(t, bad)
		for _, call := range behind {
			require.EqualValues(t, 3, answered(t, call)[0].Order)
		}
		require.Equal(t, []string{probing, poisoned, harmless, harmless}, seen.all())
	})
}

// TestASuspectThatIsInnocentIsAnswered: the exchange was stopping when the reply was due. Connections that
// fail before the suspect is resent do not count against it.
func TestASuspectThatIsInnocentIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen frames
		stopping := func(p *peer) {
			p.readFrame()
			p.say("<error>the exchange is stopping</error>")
		}
		c := open(t, played(t, Options{}, stopping, nil, stopping, func(p *peer) {
			p.readFrame()
			p.say(`<created sym="A"/>`) // not a valid reply to the probe
			p.readFrame()
		}, strict(&seen)))
		suspect, behind := send(t, c, buys(1).WithRef("r")), send(t, c, Query("1", 7))
		require.EqualValues(t, 3, answered(t, suspect)[0].Order)
		require.Equal(t, Whole(5), answered(t, behind)[0].Status.Open)
		require.Equal(t, []string{probing, strings.Replace(harmless, "/>", ` ref="r"/>`, 1),
			`<transactions id="1"><query id="7"/></transactions>`}, seen.all())
	})
}

func TestAFrameOfTooManyElementsIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := open(t, played(t, Options{}, honest))
		_, err := c.Do(background, slices.Repeat([]Command{Query("1", 7)}, 100_000)...)
		require.EqualError(t, err,
			"client: account 1 queries order 7 and 99999 more: a frame of 100001 XML elements is over the limit of 100000")
		_, err = c.Do(background, slices.Repeat([]Command{Place("A", "1", Whole(1))}, 50_000)...)
		require.ErrorContains(t, err, "a frame of 100001 XML elements")
		_, err = c.Query(background, "1", 7)
		require.NoError(t, err)
	})
}

// TestTheLimitOfElementsIsTheExchanges: the client sends exactly the frames that the exchange accepts.
func TestTheLimitOfElementsIsTheExchanges(t *testing.T) {
	for _, commands := range [][]Command{
		slices.Repeat([]Command{Query("1", 7)}, wire.ElementsMax-1),
		slices.Repeat([]Command{Query("1", 7)}, wire.ElementsMax),
		append(slices.Repeat([]Command{Place("A", "1", Whole(1))}, (wire.ElementsMax-2)/2), MakeSymbol("A")),
		slices.Repeat([]Command{Place("A", "1", Whole(1))}, wire.ElementsMax/2),
	} {
		var request wire.Request
		request.Decode(encode(commands), nil)
		require.Equal(t, check(commands) == nil, request.Refused() == 0, "%v, %d times", commands[0], len(commands))
	}
}
