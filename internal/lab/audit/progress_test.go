package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

func TestBulkOrdersThatAreLostOrDoubledAreNoticed(t *testing.T) {
	s := NewSession(Target{}, nil, "801")
	s.BulkSent(3)
	ids, refusal := s.BulkAnswered([]wire.Answer{{Kind: "opened", ID: "7"}, {Kind: "error", Error: "full"},
		{Kind: "error", Error: "late"}})
	require.Equal(t, []uint64{7}, ids)
	require.Equal(t, "full", refusal)
	s.BulkAnswered([]wire.Answer{{Kind: "opened", ID: "8"}, {Kind: "opened", ID: "9"}})
	all := &s.history.bulk
	require.True(t, all.accounts["801"])
	require.NoError(t, all.match(&order{id: 7}))
	require.ErrorContains(t, all.lost(), "is lost")
	require.NoError(t, all.match(&order{id: 8}))
	require.NoError(t, all.match(&order{id: 9}))
	require.NoError(t, all.lost())
	require.ErrorContains(t, all.match(&order{id: 10}), "twice")
}
