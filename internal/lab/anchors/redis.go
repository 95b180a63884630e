package anchors

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"outcry/internal/lab/load"
)

// redis is a Redis server with an append-only file.
type redis struct{ *process }

func startRedis(ctx context.Context, dir string) (server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	p, err := launch(ctx, addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no", "--logfile", filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	return &redis{p}, nil
}

// command encodes a command in RESP.
func command(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

func (r *redis) measure(ctx context.Context, o load.Options, rate float64) (*load.Result, error) {
	o.Addrs, o.Greet = []string{r.addr}, greetRedis
	return send(ctx, o, rate, func(n int) load.Source {
		s := &prepared{good: func(b []byte) bool { return string(b) == "+OK\r\n" }}
		for i := range keys {
			s.requests = append(s.requests, command("SET", fmt.Sprintf("order:%d:%d", n, i), string(payload)))
		}
		return s
	})
}

// check implements server. It compares Redis's own count of commands, and the last value written.
func (r *redis) check(ctx context.Context, writes uint64) error {
	for _, c := range []struct {
		words []string
		want  string
	}{{[]string{"INFO", "commandstats"}, fmt.Sprintf("cmdstat_set:calls=%d,", writes)},
		{[]string{"CONFIG", "GET", "appendfsync"}, "always"},
		{[]string{"GET", "order:0:0"}, string(payload)}} {
		reply, err := ask(ctx, r.addr, greetRedis, command(c.words...))
		if err != nil {
			return err
		}
		if !strings.Contains(reply, c.want) {
			return fmt.Errorf("%s is answered with %.300q, which has no %q", c.words, reply, c.want)
		}
	}
	return nil
}

func greetRedis(net.Conn) (load.Codec, error) { return resp{}, nil }

// resp is the codec for Redis replies. Requests are already encoded.
type resp struct{}

// Append implements load.Codec.
func (resp) Append(out, request []byte) []byte { return append(out, request...) }

// respMax is the longest string accepted in a reply.
const respMax = 1 << 20

// Cut implements load.Codec.
func (resp) Cut(in []byte) (reply []byte, n int, err error) {
	if n, err = respEnd(in, 1); n == 0 || err != nil {
		return nil, 0, err
	}
	return in[:n:n], n, nil
}

// respEnd returns the length of the first value in in, or 0 if the value is incomplete.
func respEnd(in []byte, deep int) (n int, err error) {
	line := bytes.IndexByte(in, '\n')
	if line < 0 {
		if len(in) > respMax {
			return 0, fmt.Errorf("a line of more than %d bytes", respMax)
		}
		return 0, nil
	}
	if line < 2 || in[line-1] != '\r' {
		return 0, fmt.Errorf("not RESP: %.40q", in)
	}
	switch in[0] {
	case '+', '-', ':':
		return line + 1, nil
	case '$', '*':
	default:
		return 0, fmt.Errorf("not RESP: %.40q", in)
	}
	size, err := strconv.Atoi(string(in[1 : line-1]))
	if err != nil || size < -1 || size > respMax {
		return 0, fmt.Errorf("not RESP: %.40q", in)
	}
	n = line + 1
	if in[0] == '$' {
		if size >= 0 {
			n += size + len("\r\n")
		}
		if n > len(in) {
			return 0, nil
		}
		return n, nil
	}
	if deep == 0 {
		return 0, fmt.Errorf("too deep: %.40q", in)
	}
	for range size {
		part, err := respEnd(in[n:], deep-1)
		if part == 0 || err != nil {
			return 0, err
		}
		n += part
	}
	return n, nil
}
