package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/model"
	"outcry/internal/testing/pgtest"
	"outcry/internal/testing/processes"
)

// freeze pauses every process of a Postgres cluster. The returned function, or the end of the test, resumes them.
func freeze(t *testing.T, postmaster int) (thaw func()) {
	t.Helper()
	thaw, n := processes.Freeze(postmaster)
	require.Greater(t, n, 1)
	t.Cleanup(thaw)
	return thaw
}

// TestAQueryOfAnOldOrderHoldsBackNoOrderBehindIt: while Postgres is frozen and a query of an old order waits for it, a
// later order of the same connection and the same write enters the book. A query of an id not yet assigned is answered
// as unknown even if the id is assigned later.
func TestAQueryOfAnOldOrderHoldsBackNoOrderBehindIt(t *testing.T) {
	raced(t)
	t.Parallel()
	pg, _ := pgtest.NewCluster(t)
	s, addr := inProcess(t, "--data="+t.TempDir(), "--database-url="+pg.URL(), "--closed-orders=1")
	c, other := dial(t, addr), dial(t, addr)
	c.must(t, opening)
	for range 5 {
		c.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="3"/></transactions>`)
		c.must(t, `<transactions id="1"><order sym="S" amount="1" limit="3"/></transactions>`)
		require.NoError(t, s.projector.WaitApplied(background, s.journal.Appended()))
	}
	old := `<transactions id="1"><query id="1"/></transactions>`
	executed := `<results><status id="1"><executed shares="1" price="3" time="T"/></status></results>`
	require.Equal(t, executed, model.Normalize([]byte(c.must(t, old))))

	thaw := freeze(t, pg.Pid())
	var frames []byte
	for _, xml := range []string{old, `<transactions id="1"><cancel id="1"/></transactions>`,
		`<transactions id="2"><order sym="S" amount="-1" limit="9"/><query id="12"/></transactions>`} {
		frames = wire.AppendFrame(frames, []byte(xml))
	}
	_, err := c.Write(frames)
	require.NoError(t, err)
	open := `<results><status id="11"><open shares="1"/></status></results>`
	require.Eventually(t, func() bool {
		return other.must(t, `<transactions id="1"><query id="11"/></transactions>`) == open
	}, patience, time.Millisecond)
	require.Equal(t, `<results><opened sym="S" amount="-1" limit="10" id="12"/></results>`,
		other.must(t, `<transactions id="2"><order sym="S" amount="-1" limit="10"/></transactions>`),
		"which nobody had when it was asked for")
	thaw()
	for _, want := range []string{executed, `<results><error id="1">*</error></results>`,
		`<results><opened sym="S" amount="-1" limit="9" id="11"/><error id="12">*</error></results>`} {
		reply, err := c.r.Next()
		require.NoError(t, err)
		require.Equal(t, want, model.Normalize(reply))
	}
}
