package anchors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/net/http2/hpack"

	"outcry/internal/lab/load"
)

// etcd is a single-member etcd.
type etcd struct {
	*process
	first uint64 // revision before the first put
}

func startEtcd(ctx context.Context, dir string) (server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, addr, "etcd", "--name", "anchor", "--data-dir", filepath.Join(dir, "etcd"),
		"--listen-client-urls", "http://"+addr, "--advertise-client-urls", "http://"+addr,
		"--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:0",
		"--initial-cluster", "anchor=http://127.0.0.1:0", "--log-level", "error", "--quota-backend-bytes", "8589934592")
	if err != nil {
		return nil, err
	}
	e := &etcd{process: p}
	if e.first, err = e.revision(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return e, nil
}

var etcdRevision = regexp.MustCompile(`"revision":"(\d+)"`)

// revision returns the current revision, which is one more than the number of puts.
func (e *etcd) revision(ctx context.Context) (n uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.addr+"/v3/kv/range",
		strings.NewReader(`{"key":"AA==","count_only":true}`))
	if err != nil {
		return 0, err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	m := etcdRevision.FindSubmatch(b)
	if err != nil || m == nil {
		return 0, fmt.Errorf("etcd reports no revision: %.300q (%w)", b, err)
	}
	_, err = fmt.Sscan(string(m[1]), &n)
	return n, err
}

// check implements server. Every put increments the revision.
func (e *etcd) check(ctx context.Context, writes uint64) error {
	n, err := e.revision(ctx)
	if err == nil && n-e.first != writes {
		err = fmt.Errorf("%d revisions instead of %d", n-e.first, writes)
	}
	return err
}

func (e *etcd) measure(ctx context.Context, o load.Options, rate float64) (*load.Result, error) {
	o.Addrs, o.Greet = []string{e.addr}, greetEtcd
	return send(ctx, o, rate, func(n int) load.Source {
		s := &prepared{good: func(b []byte) bool { return len(b) == 0 }}
		for i := range keys {
			s.requests = append(s.requests, putRequest(fmt.Sprintf("order:%d:%d", n, i), payload))
		}
		return s
	})
}

// Frame types and flags of HTTP/2 (RFC 9113, section 6).
const (
	h2Head                                          = 9 // length of a frame header
	h2Data, h2Headers, h2Reset, h2Settings          = 0, 1, 3, 4
	h2Ping, h2GoAway, h2Window, h2Continuation      = 6, 7, 8, 9
	h2EndStream, h2Ack                         byte = 1, 1
	h2EndHeaders                               byte = 4
	h2FrameMax                                      = 1 << 20
)

// h2Frame appends a frame to b.
func h2Frame(b []byte, kind, flags byte, stream uint32, body []byte) []byte {
	b = append(b, byte(len(body)>>16), byte(len(body)>>8), byte(len(body)), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), body...)
}

// putRequest returns the header and message frames of a Put call, with stream id 0.
func putRequest(key string, value []byte) []byte {
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/etcdserverpb.KV/Put"},
		{":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}) // never indexed
	}
	put := append([]byte{1<<3 | 2, byte(len(key))}, key...)
	put = append(append(put, 2<<3|2, byte(len(value))), value...) // both are below 128 bytes
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(put))), put...)
	b := h2Frame(nil, h2Headers, h2EndHeaders, 0, block.Bytes())
	return h2Frame(b, h2Data, h2EndStream, 0, message)
}

// greetEtcd starts HTTP/2 with large windows and without a header table, so that trailers are always the
// same bytes.
func greetEtcd(c net.Conn) (load.Codec, error) {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	b = h2Frame(b, h2Settings, 0, 0, []byte{0, 1, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff})
	b = h2Frame(b, h2Window, 0, 0, []byte{0x7f, 0xfe, 0, 0})
	_, err := c.Write(b)
	return &h2{stream: 1}, err
}

// h2 is a codec for gRPC calls over HTTP/2. Trailers end a reply and contain the call's status. The reply
// passed to a Source is empty if the call succeeded, else the trailers.
type h2 struct {
	stream  uint32 // id of the next call's stream
	control []byte // acknowledgements to send
	good    []byte // trailers of a successful call
	block   []byte // a partially received header block
	ends    bool   // the block ends the stream
}

// Append implements load.Codec.
func (h *h2) Append(out, request []byte) []byte {
	out = append(out, h.control...)
	h.control = h.control[:0]
	at := len(out)
	out = append(out, request...)
	binary.BigEndian.PutUint32(out[at+5:], h.stream)
	data := at + h2Head + (int(out[at])<<16 | int(out[at+1])<<8 | int(out[at+2]))
	binary.BigEndian.PutUint32(out[data+5:], h.stream)
	h.stream += 2
	return out
}

// Cut implements load.Codec.
func (h *h2) Cut(in []byte) (reply []byte, n int, err error) {
	if len(in) < h2Head {
		return nil, 0, nil
	}
	size, kind, flags := int(in[0])<<16|int(in[1])<<8|int(in[2]), in[3], in[4]
	if size > h2FrameMax {
		return nil, 0, fmt.Errorf("not HTTP/2: %.40q", in)
	}
	if n = h2Head + size; n > len(in) {
		return nil, 0, nil
	}
	body := in[h2Head:n]
	switch kind {
	case h2Headers, h2Continuation:
		return h.headers(kind, flags, body, n)
	case h2Settings:
		if flags&h2Ack == 0 {
			h.control = h2Frame(h.control, h2Settings, h2Ack, 0, nil)
		}
	case h2Ping:
		if flags&h2Ack == 0 {
			h.control = h2Frame(h.control, h2Ping, h2Ack, 0, body)
		}
	case h2Reset, h2GoAway:
		return nil, 0, fmt.Errorf("the server ended the call: frame %d, %q", kind, body)
	case h2Data:
		if flags&h2EndStream != 0 {
			return nil, 0, errors.New("a call without trailers")
		}
	}
	return nil, n, nil
}

// headers processes a frame of headers or trailers.
func (h *h2) headers(kind, flags byte, body []byte, n int) (reply []byte, _ int, err error) {
	if kind == h2Headers {
		h.ends = flags&h2EndStream != 0
	}
	h.block = append(h.block, body...)
	switch {
	case flags&^(h2EndStream|h2EndHeaders) != 0 || len(h.block) > h2FrameMax:
		return nil, 0, fmt.Errorf("headers with flags %x that are not expected", flags)
	case flags&h2EndHeaders == 0:
		return nil, n, nil
	}
	block := h.block
	h.block = h.block[:0]
	if !h.ends {
		return nil, n, nil
	}
	if len(h.good) == 0 && grpcOK(block) {
		h.good = bytes.Clone(block)
	}
	if bytes.Equal(block, h.good) {
		return []byte{}, n, nil
	}
	return block, n, nil
}

// grpcOK reports whether trailers contain the status of success.
func grpcOK(block []byte) bool {
	fields, err := hpack.NewDecoder(0, nil).DecodeFull(block)
	for _, f := range fields {
		if err == nil && f.Name == "grpc-status" {
			return f.Value == "0"
		}
	}
	return false
}
