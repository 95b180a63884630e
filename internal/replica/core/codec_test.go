package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

func someMark() *Mark {
	return &Mark{Index: 7, Term: 3, Cluster: Identity{9}, Position: Position{Seq: 5, Chain: 0xabc},
		Conf: &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{4}, VotersOutgoing: []uint64{3},
			LearnersNext: []uint64{3}, AutoLeave: new(true)},
		Members: []Member{{1, Identity{1}, "a:1"}, {2, Identity{}, ""}}, Removed: []Identity{{8}}}
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	b := batch{term: 1, first: 2, chain: 3, records: [][]byte{[]byte("a"), {}, []byte("bcd")}}
	got, err := decodeBatch(b.encode())
	require.NoError(t, err)
	require.Equal(t, b, got)
	p := pins{term: 4, cluster: Identity{5}, members: someMark().Members}
	gotPins, err := decodePins(p.encode())
	require.NoError(t, err)
	require.Equal(t, p, gotPins)
	m, err := DecodeMark(someMark().Encode())
	require.NoError(t, err)
	require.True(t, proto.Equal(someMark().Conf, m.Conf))
	want := someMark()
	want.Conf, m.Conf = nil, nil
	require.Equal(t, want, m)
}

func TestDecodeRefusesWhatIsCutOrLonger(t *testing.T) {
	for name, d := range map[string][]byte{
		"batch": batch{term: 1, first: 2, records: [][]byte{[]byte("abc")}}.encode(),
		"pins":  pins{term: 1, members: someMark().Members}.encode(),
		"mark":  someMark().Encode(),
	} {
		for i := range d {
			require.Error(t, decodeAny(name, d[:i]), "%s cut to %d", name, i)
		}
		require.Error(t, decodeAny(name, append(d, 0)), name)
	}
	require.ErrorContains(t, decodeAny("batch", batch{term: 1}.encode()), "has no records")
}

func decodeAny(name string, d []byte) (err error) {
	switch name {
	case "batch":
		_, err = decodeBatch(d)
	case "pins":
		_, err = decodePins(d)
	case "mark":
		_, err = DecodeMark(d)
	}
	return err
}

// FuzzDecode checks that whatever decodes without error encodes to the same bytes again.
func FuzzDecode(f *testing.F) {
	f.Add(batch{term: 1, first: 2, records: [][]byte{[]byte("abc"), {}}}.encode())
	f.Add(pins{term: 1, cluster: Identity{1}, members: someMark().Members}.encode())
	f.Add(someMark().Encode())
	f.Fuzz(func(t *testing.T, d []byte) {
		if b, err := decodeBatch(d); err == nil {
			require.Equal(t, d, b.encode())
		}
		if p, err := decodePins(d); err == nil {
			require.Equal(t, d, p.encode())
		}
		if m, err := DecodeMark(d); err == nil {
			require.Equal(t, d, m.Encode())
		}
		if m, err := decodeMembers(d); err == nil {
			require.Equal(t, d, appendMembers(nil, m))
		}
	})
}
