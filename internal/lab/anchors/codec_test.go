package anchors

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2/hpack"

	"outcry/internal/lab/load"
)

// trailers returns the trailers of a call with the given status.
func trailers(status string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	_ = e.WriteField(hpack.HeaderField{Name: "grpc-status", Value: status, Sensitive: true})
	_ = e.WriteField(hpack.HeaderField{Name: "grpc-message", Value: "", Sensitive: true})
	return b.Bytes()
}

// called returns the bytes that a server sends for a call that ends with the given status.
func called(stream uint32, status string) []byte {
	b := h2Frame(nil, h2Headers, h2EndHeaders, stream, []byte("\x88"))
	b = h2Frame(b, h2Data, 0, stream, []byte("\x00\x00\x00\x00\x02\x0a\x00"))
	return h2Frame(b, h2Headers, h2EndHeaders|h2EndStream, stream, trailers(status))
}

// spoken has transcripts of servers, each with the replies that the codec must find in it.
var spoken = []struct {
	name    string
	codec   func() load.Codec
	sends   string
	replies []string
	bad     bool // an error must follow the replies
}{
	{"redis", newResp, "+OK\r\n-ERR no\r\n:7\r\n$5\r\na\r\nbc\r\n$-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n+OK\r\n",
		[]string{"+OK\r\n", "-ERR no\r\n", ":7\r\n", "$5\r\na\r\nbc\r\n", "$-1\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
			"+OK\r\n"}, false},
	{"redis says something else", newResp, "+OK\r\nHTTP/1.1 200 OK\r\n", []string{"+OK\r\n"}, true},
	{"redis with a length that is no number", newResp, "$x\r\n", nil, true},
	{"redis with a line that ends early", newResp, "+OK\n", nil, true},
	{"postgres", newPgwire, insertedRow + insertedRow + "E\x00\x00\x00\x06no" + "Z\x00\x00\x00\x05I",
		[]string{insertedRow, insertedRow, "E\x00\x00\x00\x06noZ\x00\x00\x00\x05I"}, false},
	{"postgres with too short a length", newPgwire, insertedRow + "2\x00\x00\x00\x03", []string{insertedRow}, true},
	{"nats", newNATSWire, "INFO {}\r\nMSG a 1 3\r\n1\r\n\r\nPING\r\n+OK\r\nMSG a 1 0\r\n\r\n",
		[]string{"MSG a 1 3\r\n1\r\n\r\n", "MSG a 1 0\r\n\r\n"}, false},
	{"nats with an error", newNATSWire, "MSG a 1 0\r\n\r\n-ERR 'no'\r\n", []string{"MSG a 1 0\r\n\r\n"}, true},
	{"nats with a length that is no number", newNATSWire, "MSG a 1 -3\r\n", nil, true},
	{"etcd", newH2, string(h2Frame(nil, h2Settings, 0, 0, nil)) + string(called(1, "0")) + string(called(3, "0")),
		[]string{"", ""}, false},
	{"etcd with a call that fails", newH2, string(called(1, "0")) + string(called(3, "8")),
		[]string{"", string(trailers("8"))}, false},
	{"etcd that fails at once", newH2, string(called(1, "14")), []string{string(trailers("14"))}, false},
	{"etcd that goes away", newH2, string(h2Frame(nil, h2GoAway, 0, 0, make([]byte, 8))), nil, true},
	{"etcd without trailers", newH2, string(h2Frame(nil, h2Data, h2EndStream, 1, nil)), nil, true},
}

func newResp() load.Codec     { return resp{} }
func newPgwire() load.Codec   { return pgwire{} }
func newNATSWire() load.Codec { return &natsWire{} }
func newH2() load.Codec       { return &h2{stream: 1} }

// heard passes in to the codec in parts of the given size, as a connection may deliver it, and returns the replies.
func heard(c load.Codec, in []byte, part int) (replies []string, err error) {
	var rest []byte
	for len(in) > 0 {
		n := min(part, len(in))
		rest, in = append(rest, in[:n]...), in[n:]
		for {
			reply, n, err := c.Cut(rest)
			if err != nil {
				return replies, err
			}
			if n == 0 {
				break
			}
			if reply != nil {
				replies = append(replies, string(reply))
			}
			rest = rest[n:]
		}
	}
	return replies, nil
}

func TestTheEndsOfRepliesAreFound(t *testing.T) {
	for _, x := range spoken {
		for _, part := range []int{1, 2, 7, 1 << 20} {
			replies, err := heard(x.codec(), []byte(x.sends), part)
			require.Equal(t, x.replies, replies, "%s, in parts of %d", x.name, part)
			require.Equal(t, x.bad, err != nil, "%s, in parts of %d: %v", x.name, part, err)
		}
	}
}

// FuzzCodecs checks that for any input the replies do not depend on the parts in which it arrives, and
// that nothing is read beyond its end.
func FuzzCodecs(f *testing.F) {
	for _, x := range spoken {
		f.Add([]byte(x.sends))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, codec := range []func() load.Codec{newResp, newPgwire, newNATSWire, newH2} {
			whole, wholeErr := heard(codec(), in, len(in)+1)
			parts, partsErr := heard(codec(), in, 3)
			require.Equal(t, whole, parts)
			require.Equal(t, wholeErr == nil, partsErr == nil, "%v, %v", wholeErr, partsErr)
		}
	})
}

// TestAPingIsAnswered checks that pings are answered, since servers otherwise close the connection.
func TestAPingIsAnswered(t *testing.T) {
	n := &natsWire{}
	_, err := heard(n, []byte("PING\r\n"), 100)
	require.NoError(t, err)
	require.Equal(t, "PONG\r\nPUB", string(n.Append(nil, []byte("PUB"))))
	h := &h2{stream: 5}
	_, err = heard(h, h2Frame(h2Frame(nil, h2Ping, 0, 0, []byte("12345678")), h2Settings, 0, 0, nil), 100)
	require.NoError(t, err)
	want := h2Frame(h2Frame(nil, h2Ping, h2Ack, 0, []byte("12345678")), h2Settings, h2Ack, 0, nil)
	request := putRequest("k", []byte("v"))
	out := h.Append(nil, request)
	require.Equal(t, want, out[:len(want)])
	require.Len(t, out, len(want)+len(request))
}

// TestEachCallHasAStreamOfItsOwn checks that both frames of a call have its stream id, and that ids rise
// by two.
func TestEachCallHasAStreamOfItsOwn(t *testing.T) {
	h := &h2{stream: 1}
	for want := uint32(1); want < 9; want += 2 {
		b := h.Append(nil, putRequest("k", []byte("v")))
		var streams []uint32
		for len(b) > 0 {
			streams = append(streams, uint32(b[5])<<24|uint32(b[6])<<16|uint32(b[7])<<8|uint32(b[8]))
			b = b[h2Head+(int(b[0])<<16|int(b[1])<<8|int(b[2])):]
		}
		require.Equal(t, []uint32{want, want}, streams)
	}
}

func TestLoadsAreWrittenAndRead(t *testing.T) {
	for text, want := range map[string]Shape{"64x16": {64, 16}, "64×1": {64, 1}, "128x64": {128, 64}} {
		s, err := ParseShape(text)
		require.NoError(t, err)
		require.Equal(t, want, s)
	}
	for _, text := range []string{"", "64", "0x1", "64x0", "129x1", "64x65", "64x1x2", " 64x1", "064x1", "-1x1", "axb"} {
		_, err := ParseShape(text)
		require.ErrorContains(t, err, "is not a load", text)
	}
}
