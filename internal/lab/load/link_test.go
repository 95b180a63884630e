package load

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
)

func TestTheNumberOfAnOrderIsFound(t *testing.T) {
	for reply, want := range map[string]uint64{
		`<results><opened sym="A" amount="1" limit="1" id="42"/></results>`:          42,
		"<results><opened id='7' sym=\"id=9\"/></results>":                           7,
		"<?xml version=\"1.0\"?>\n<results>\n<opened\tid=\"18\"></opened></results>": 18,
		`<results><opened sym="A" amount="1" limit="1"/></results>`:                  0,
		`<results><opened sym="A" refid="3" id="x1"/></results>`:                     0,
		`<results><opened sym="A"/><x id="3"/></results>`:                            0,
		`<results><error id="3">no</error></results>`:                                0,
		`<results><opened id="99999999999999999999"/></results>`:                     0,
		`<opened id=`: 0,
		`<opened`:     0,
		``:            0,
	} {
		require.Equal(t, want, openedID([]byte(reply)), reply)
	}
}

// TestALooseReplyEndsWithItsRoot covers replies in parts, several replies in one write, and arbitrary
// lengths.
func TestALooseReplyEndsWithItsRoot(t *testing.T) {
	long := "<results>" + strings.Repeat("<a/>", 4*codedBytes) + "</results>"
	for _, chunk := range []int{1, 7, 1 << 20} {
		ours, theirs := net.Pipe()
		l := &coded{Conn: ours, codec: newLoose(dialect.Habits{Bare: true}, 0)}
		go func() {
			text := []byte("<results><a>1</a></results>\n12\r\n<results><b/></results>" + long + "5\n<results>")
			for len(text) > 0 {
				n := min(chunk, len(text))
				_, _ = theirs.Write(text[:n])
				text = text[n:]
			}
			theirs.Close()
		}()
		for _, want := range []string{"<results><a>1</a></results>", "<results><b/></results>", long} {
			got, err := l.NextReply()
			require.NoError(t, err)
			require.True(t, bytes.Equal([]byte(want), got), "%.100s", got)
		}
		_, err := l.NextReply()
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, l.Close())
	}
}

// TestALooseReplyIsBounded checks that reading stops if the server never ends a reply.
func TestALooseReplyIsBounded(t *testing.T) {
	ours, theirs := net.Pipe()
	l := &coded{Conn: ours, codec: newLoose(dialect.Habits{Bare: true}, 0)}
	go func() {
		for {
			if _, err := theirs.Write(bytes.Repeat([]byte("<a/>"), 1<<14)); err != nil {
				return
			}
		}
	}()
	_, err := l.NextReply()
	require.ErrorContains(t, err, "a reply of more than 8388608 bytes")
	require.NoError(t, l.Close())
}

// TestOnlyWholeLooseRepliesAreBuffered checks that half a reply is not reported as buffered, since a
// worker would then block on the other half.
func TestOnlyWholeLooseRepliesAreBuffered(t *testing.T) {
	ours, theirs := net.Pipe()
	l := &coded{Conn: ours, codec: newLoose(dialect.Habits{ResultRoot: true}, 0)}
	go func() { _, _ = theirs.Write([]byte("<result/><result><a/></result><result><b/></result><result><c/>")) }()
	_, err := l.NextReply()
	require.NoError(t, err)
	require.True(t, l.Buffered())
	_, err = l.NextReply()
	require.NoError(t, err)
	require.False(t, l.Buffered())
	require.NoError(t, l.Close())
}
