package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"outcry/internal/replica/core"
)

func TestFrames(t *testing.T) {
	var sent []byte
	var contents [][]byte
	for _, size := range []int{0, 1, readStep - 1, readStep, readStep + 1, keepBytesMax + 1, 3*keepBytesMax + 7, 5} {
		content := bytes.Repeat([]byte{byte(size)}, size+1)
		contents = append(contents, content)
		sent = appendFrame(sent, content[0], content[1:])
	}
	f := frameReader{r: iotest.HalfReader(bytes.NewReader(sent))}
	for _, want := range contents {
		got, err := f.next(MessageBytesMax)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		require.LessOrEqual(t, cap(f.memory), keepBytesMax)
	}
	_, err := f.next(MessageBytesMax)
	require.Equal(t, io.EOF, err)
	for cut := 1; cut < 20; cut++ {
		f := frameReader{r: bytes.NewReader(appendFrame(nil, 'x', make([]byte, 11))[:cut])}
		_, err := f.next(100)
		require.Equal(t, io.ErrUnexpectedEOF, err, cut)
	}
	f = frameReader{r: bytes.NewReader(appendFrame(nil, 'x', make([]byte, 100)))}
	_, err = f.next(100)
	require.ErrorIs(t, err, errFrame)
}

func TestALengthAloneCostsNothing(t *testing.T) {
	header := []byte{0, 0, 0, 8, 0, 0, 0, 0} // announces 128 MiB that never arrive
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f := frameReader{r: bytes.NewReader(header)}
			if _, err := f.next(MessageBytesMax); err != io.ErrUnexpectedEOF {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(2*readStep))
}

// FuzzFrames reads arbitrary bytes as frames. The contents must be those in the input, and the
// memory used is at most a few times the size of the input.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 'a', nil), 'b', []byte("content")), uint16(100))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0}, uint16(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0x7f}, uint16(0))
	f.Add(make([]byte, 64), uint16(9))
	f.Fuzz(func(t *testing.T, b []byte, most uint16) {
		reader := frameReader{r: bytes.NewReader(b)}
		var again []byte
		for {
			content, err := reader.next(int(most))
			if err != nil {
				if !errors.Is(err, errFrame) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatal(err)
				}
				if err == io.EOF && !bytes.Equal(again, b) {
					t.Fatalf("%x was read of %x", again, b)
				}
				break
			}
			if len(content) > int(most) || cap(reader.memory) > max(readStep, 4*len(b)) {
				t.Fatalf("%d bytes, memory of %d", len(content), cap(reader.memory))
			}
			at := len(again)
			again = append(beginFrame(again), content...)
			endFrame(again, at)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read of %x", again, b)
		}
		_ = readAnswer(bytes.NewReader(b), int(most), func([]byte) error { return nil })
	})
}

func TestWhomAHelloRefuses(t *testing.T) {
	own := helloOf(1)
	own.Cluster = core.Identity{9}
	for name, c := range map[string]struct {
		change func(*Hello)
		want   error
	}{
		"as it should be":           {func(*Hello) {}, nil},
		"no number":                 {func(h *Hello) { h.Node = 0 }, ErrNumber},
		"the same number":           {func(h *Hello) { h.Node = 1 }, ErrNumber},
		"no identity":               {func(h *Hello) { h.Self = core.Identity{} }, ErrIdentity},
		"a copied directory":        {func(h *Hello) { h.Self = own.Self }, ErrIdentity},
		"another cluster":           {func(h *Hello) { h.Cluster = core.Identity{8} }, ErrCluster},
		"no cluster yet":            {func(h *Hello) { h.Cluster = core.Identity{} }, nil},
		"no protocol":               {func(h *Hello) { h.ProtocolVersion = 0 }, ErrVersion},
		"a newer protocol":          {func(h *Hello) { h.ProtocolVersion = 9 }, nil},
		"older records":             {func(h *Hello) { h.EventVersion = 2 }, nil},
		"newer records":             {func(h *Hello) { h.EventVersion = 4 }, nil},
		"a smaller segment":         {func(h *Hello) { h.SegmentBytes-- }, ErrSegment},
		"a larger segment":          {func(h *Hello) { h.SegmentBytes++ }, nil},
		"other tokens, limits, all": {func(h *Hello) { h.TokensHash, h.LimitsHash, h.Version = "a", "b", "2" }, nil},
	} {
		other := helloOf(2)
		other.Cluster = own.Cluster
		c.change(&other)
		require.ErrorIs(t, own.Refuse(other), c.want, name)
	}
	young := helloOf(1) // does not know its cluster yet
	other := helloOf(2)
	other.Cluster = core.Identity{8}
	require.NoError(t, young.Refuse(other))
	young.Founders, other.Founders = "1,2,3", "1,2,3"
	require.NoError(t, young.Refuse(other))
	other.Founders = "1,2,3,4,5"
	require.ErrorIs(t, young.Refuse(other), ErrCluster)
	other.Founders = "" // waits to be added to a cluster
	require.NoError(t, young.Refuse(other))
}

func TestHelloKeepsItsValuesAsJSON(t *testing.T) {
	h := Hello{Node: 1, Self: core.Identity{1, 0xab}, Cluster: core.Identity{2}, Version: "v", EventVersion: 3,
		ProtocolVersion: 4, Listen: "a:1", HTTP: "b:2", SegmentBytes: 5, TokensHash: "t", LimitsHash: "l"}
	b, err := json.Marshal(h)
	require.NoError(t, err)
	require.Contains(t, string(b), `"self":"01ab0000000000000000000000000000"`)
	var again Hello
	require.NoError(t, json.Unmarshal(b, &again))
	require.Equal(t, h, again)
	for _, bad := range []string{`{"self":"01"}`, `{"self":"zzab0000000000000000000000000000"}`, `{"self":1}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &again))
		require.Equal(t, h, again)
	}
}
