package audit

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

func TestAnOrderThatIsHeldBackIsNoticed(t *testing.T) {
	old := []uint64{1, 2, 3, 4, 5}
	replies := func(last string) *Line {
		var b []byte
		for _, id := range old {
			b = wire.AppendFrame(b, fmt.Appendf(nil,
				`<results><status id="%d"/><error id="%d">it was canceled before</error></results>`, id, id))
		}
		ours, theirs := net.Pipe()
		t.Cleanup(func() { ours.Close() })
		go theirs.Write(wire.AppendFrame(b, []byte(last)))
		return NewLine(ours)
	}
	opened := `<results><opened sym="ABUSE" amount="1" limit="1" id="%d"/></results>`
	s := NewSession(Target{}, nil)
	require.NoError(t, s.judgeUndelayed(replies(fmt.Sprintf(opened, 99)), old, 100))
	require.ErrorContains(t, s.judgeUndelayed(replies(fmt.Sprintf(opened, 101)), old, 100), "delayed it")
	refused := replies(`<results><error sym="ABUSE">why</error></results>`)
	require.ErrorContains(t, s.judgeUndelayed(refused, old, 100), "why")
	require.ErrorContains(t, s.judgeUndelayed(replies(fmt.Sprintf(opened, 99)), []uint64{2, 1, 3, 4, 5}, 100),
		"old order 2 is answered")
}
