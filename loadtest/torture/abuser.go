package torture

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"outcry/internal/check"
	"outcry/internal/wire"
)

// line is a connection of the abuser, on which it may also do what no client does.
type line struct {
	net.Conn
	in *bufio.Reader
}

// dialLine opens one, with its token where there is one. It ends with ctx.
func (r *runner) dialLine(ctx context.Context) (*line, error) {
	conn, err := check.Dial(ctx, r.abuser)
	if err != nil {
		return nil, fmt.Errorf("torture: the abuser does not get in: %w", err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return &line{conn.Raw(), bufio.NewReader(conn.Raw())}, nil
}

// send sends frames. The error is the connection's.
func (l *line) send(frames ...[]byte) error {
	var b []byte
	for _, xml := range frames {
		b = wire.AppendFrame(b, xml)
	}
	if err := l.SetDeadline(time.Now().Add(check.ReplyTimeout)); err != nil {
		return err
	}
	_, err := l.Write(b)
	return err
}

// replyHead reads the length of the next reply, without reading the reply.
func (l *line) replyHead() (bytes int64, err error) {
	head, err := l.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(head), 10, 64)
}

// skipReply reads a reply, keeps nothing of it, and returns its length.
func (l *line) skipReply() (bytes int64, err error) {
	if bytes, err = l.replyHead(); err == nil {
		_, err = io.CopyN(io.Discard, l.in, bytes)
	}
	return bytes, err
}

// reply reads a reply of at most bytesMax.
func (l *line) reply(bytesMax int64) ([]wire.Answer, error) {
	bytes, err := l.replyHead()
	switch {
	case err != nil:
		return nil, err
	case bytes > bytesMax:
		return nil, fmt.Errorf("a reply has %d bytes, and %d at the most", bytes, bytesMax)
	}
	b := make([]byte, bytes)
	if _, err := io.ReadFull(l.in, b); err != nil {
		return nil, err
	}
	return wire.ParseReply(b)
}

// abuserOrder is what the abuser places, again and again.
type abuserOrder struct{ account, amount, limit string }

// orders makes a frame of n of them.
func (r *runner) orders(o abuserOrder, n int) []byte {
	t := wire.NewTransactions(o.account)
	for range n {
		t.Order(abuseSym, o.amount, o.limit)
	}
	r.BulkSent(n)
	return t.Append(nil)
}

// Frames of the abuser's orders, of which so many are under way at a time.
const (
	abuserFrame = 500
	abuserDepth = 16
)

// placeMany places up to n orders, and stops with the frame in which one is refused. It
// returns the ids of those that were accepted, and the refusal, "" if there was none.
func (r *runner) placeMany(ctx context.Context, o abuserOrder, n int) (ids []uint64, refusal string, err error) {
	l, err := r.dialLine(ctx)
	if err != nil {
		return nil, "", err
	}
	defer l.Close()
	for sent, pending := 0, []int(nil); (sent < n && refusal == "") || len(pending) > 0; {
		for ; len(pending) < abuserDepth && sent < n && refusal == ""; sent += pending[len(pending)-1] {
			pending = append(pending, min(abuserFrame, n-sent))
			if err := l.send(r.orders(o, pending[len(pending)-1])); err != nil {
				return ids, refusal, fmt.Errorf("torture: the abuser's orders: %w", err)
			}
		}
		answers, err := l.reply(replyMax)
		if err != nil {
			return ids, refusal, fmt.Errorf("torture: the abuser's orders: %w", err)
		}
		pending = pending[1:]
		more, why := r.BulkTold(answers)
		ids = append(ids, more...)
		if refusal == "" {
			refusal = why
		}
	}
	return ids, refusal, nil
}

// replyMax is more than any reply to a frame of the abuser's orders has.
const replyMax = 64 << 20

// ask sends a request to the HTTP side and returns the status and up to 64 KiB of the answer.
func (r *runner) askHTTP(ctx context.Context, method, path, token, body string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, check.ReplyTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+r.server.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("torture: %w", err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", fmt.Errorf("torture: %s %s: %w", method, path, err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(io.LimitReader(reply.Body, 64<<10))
	if err != nil {
		return 0, "", fmt.Errorf("torture: %s %s: %w", method, path, err)
	}
	return reply.StatusCode, string(b), nil
}

// at once runs do n times at a time and returns the first error.
func atOnce(n int, do func(i int) error) error {
	var all sync.WaitGroup
	failed := make(chan error, n)
	for i := range n {
		all.Go(func() { failed <- do(i) })
	}
	all.Wait()
	for range n {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}
