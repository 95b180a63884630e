package anchors

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"outcry/internal/lab/load"
)

// nats is a NATS server with a JetStream stream in files.
type nats struct{ *process }

// natsConf makes the server sync every message before acknowledging it.
const natsConf = "listen: \"%s\"\nping_interval: \"1h\"\njetstream {\n  store_dir: %q\n  sync_interval: always\n}\n"

func startNATS(ctx context.Context, dir string) (server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, natsConf, addr, dir), 0o600); err != nil {
		return nil, err
	}
	if said, err := exec.CommandContext(ctx, "nats-server", "-c", conf, "-t").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: this version cannot sync every message, 2.10 can: %s", errLeftOut, bytes.TrimSpace(said))
	}
	p, err := launch(ctx, addr, "nats-server", "-c", conf)
	if err != nil {
		return nil, err
	}
	n := &nats{p}
	reply, err := n.request(ctx, "$JS.API.STREAM.CREATE.ANCHOR", `{"name":"ANCHOR","subjects":["anchor.*"],`+
		`"retention":"limits","storage":"file","num_replicas":1,"max_consumers":-1,"max_msgs":-1,"max_bytes":-1}`)
	if err == nil && strings.Contains(reply, `"error"`) {
		err = fmt.Errorf("the stream was not created: %.300s", reply)
	}
	if err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// request sends a request to the server's own API and returns the payload of the reply.
func (s *nats) request(ctx context.Context, subject, body string) (string, error) {
	reply, err := ask(ctx, s.addr, greetNATS("_INBOX.ask"), published(subject, "_INBOX.ask", []byte(body)))
	_, payload, _ := strings.Cut(reply, "\r\n")
	return payload, err
}

func published(subject, inbox string, body []byte) []byte {
	return fmt.Appendf(nil, "PUB %s %s %d\r\n%s\r\n", subject, inbox, len(body), body)
}

func (s *nats) measure(ctx context.Context, o load.Options, rate float64) (*load.Result, error) {
	o.Addrs = []string{s.addr}
	inboxes := 0
	o.Greet = func(c net.Conn) (load.Codec, error) { // called in the order of the connections
		inboxes++
		return greetNATS(natsInbox(inboxes - 1))(c)
	}
	return send(ctx, o, rate, func(n int) load.Source {
		return &prepared{requests: [][]byte{published(fmt.Sprintf("anchor.%d", n), natsInbox(n), payload)}, good: acked}
	})
}

func natsInbox(n int) string { return fmt.Sprintf("_INBOX.%d", n) }

// acked reports whether a message is the stream's acknowledgement of a stored message.
func acked(b []byte) bool {
	return bytes.Contains(b, []byte("\r\n{\"stream\":\"ANCHOR\",")) && bytes.Contains(b, []byte(`"seq":`))
}

// check implements server. The stream must contain every message.
func (s *nats) check(ctx context.Context, writes uint64) error {
	reply, err := s.request(ctx, "$JS.API.STREAM.INFO.ANCHOR", "")
	if err != nil {
		return err
	}
	var info struct{ State struct{ Messages uint64 } }
	if err := json.Unmarshal([]byte(reply), &info); err != nil || info.State.Messages != writes {
		return fmt.Errorf("the stream does not have %d messages: %.300s (%w)", writes, reply, err)
	}
	return nil
}

// greetNATS starts a session that subscribes to inbox.
func greetNATS(inbox string) func(net.Conn) (load.Codec, error) {
	return func(c net.Conn) (load.Codec, error) {
		_, err := fmt.Fprintf(c, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB %s 1\r\nPING\r\n", inbox)
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				return nil, err
			case strings.HasPrefix(line, "PONG"):
				return &natsWire{}, nil
			case strings.HasPrefix(line, "-ERR"):
				return nil, fmt.Errorf("NATS refuses: %q", line)
			}
		}
	}
}

// natsWire is the codec for NATS messages. Each message to the inbox is a reply.
type natsWire struct{ pings int } // pings not answered yet

// Append implements load.Codec.
func (w *natsWire) Append(out, request []byte) []byte {
	for ; w.pings > 0; w.pings-- {
		out = append(out, "PONG\r\n"...)
	}
	return append(out, request...)
}

// Largest parts of a NATS message.
const (
	natsLineMax = 64 << 10 // INFO is the longest line
	natsBodyMax = 1 << 20
)

// Cut implements load.Codec.
func (w *natsWire) Cut(in []byte) (reply []byte, n int, err error) {
	line := bytes.IndexByte(in, '\n')
	if line < 0 {
		if len(in) > natsLineMax {
			return nil, 0, fmt.Errorf("a line of more than %d bytes", natsLineMax)
		}
		return nil, 0, nil
	}
	switch head := in[:line]; {
	case bytes.HasPrefix(head, []byte("MSG ")):
		size, err := strconv.Atoi(string(bytes.TrimSpace(head[bytes.LastIndexByte(head, ' '):])))
		if err != nil || size < 0 || size > natsBodyMax {
			return nil, 0, fmt.Errorf("not NATS: %.80q", in)
		}
		if n = line + 1 + size + len("\r\n"); n > len(in) {
			return nil, 0, nil
		}
		return in[:n:n], n, nil
	case bytes.HasPrefix(head, []byte("PING")):
		w.pings++
	case !bytes.HasPrefix(head, []byte("PONG")) && !bytes.HasPrefix(head, []byte("INFO ")) &&
		!bytes.HasPrefix(head, []byte("+OK")):
		return nil, 0, fmt.Errorf("not a NATS message: %.80q", in)
	}
	return nil, line + 1, nil
}
