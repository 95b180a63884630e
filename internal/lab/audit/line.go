package audit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"outcry/internal/door/xml/wire"
)

// Line is a connection that may send and read what an ordinary client does not.
type Line struct {
	net.Conn
	in *bufio.Reader
}

// NewLine returns a line on a connection, which the line closes.
func NewLine(conn net.Conn) *Line { return &Line{conn, bufio.NewReader(conn)} }

// DialLine opens a line and authenticates if the target has a token. The connection closes when ctx ends.
func DialLine(ctx context.Context, at Target) (*Line, error) {
	conn, err := Dial(ctx, at)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return NewLine(conn.Raw()), nil
}

// Send sends frames. It returns the connection's error.
func (l *Line) Send(frames ...[]byte) error {
	var b []byte
	for _, xml := range frames {
		b = wire.AppendFrame(b, xml)
	}
	if err := l.SetDeadline(time.Now().Add(ReplyTimeout)); err != nil {
		return err
	}
	_, err := l.Write(b)
	return err
}

// replyHead reads the length line of the next reply, without its XML.
func (l *Line) replyHead() (bytes int64, err error) {
	head, err := l.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(head), 10, 64)
}

// SkipReply reads a reply, discards it, and returns its length in bytes.
func (l *Line) SkipReply() (bytes int64, err error) {
	if bytes, err = l.replyHead(); err == nil {
		_, err = io.CopyN(io.Discard, l.in, bytes)
	}
	return bytes, err
}

// Reply reads a reply of at most bytesMax bytes.
func (l *Line) Reply(bytesMax int64) ([]wire.Answer, error) {
	bytes, err := l.replyHead()
	switch {
	case err != nil:
		return nil, err
	case bytes > bytesMax:
		return nil, fmt.Errorf("a reply has %d bytes; the maximum is %d", bytes, bytesMax)
	}
	b := make([]byte, bytes)
	if _, err := io.ReadFull(l.in, b); err != nil {
		return nil, err
	}
	return wire.ParseReply(b)
}

// BulkOrder is the order that a bulk account places repeatedly.
type BulkOrder struct{ Account, Sym, Amount, Limit string }

// BulkFrame makes a frame of n orders and counts them as sent.
func (s *Session) BulkFrame(o BulkOrder, n int) []byte {
	t := wire.NewTransactions(o.Account)
	for range n {
		t.Order(o.Sym, o.Amount, o.Limit)
	}
	s.BulkSent(n)
	return t.Append(nil)
}

const (
	// BulkAtOnce is the number of orders or creates in a frame of PlaceMany and CreateMany.
	BulkAtOnce = 500

	bulkDepth = 16 // unanswered frames of PlaceMany at a time

	// BulkReplyMax exceeds the length of any reply to a frame of orders.
	BulkReplyMax = 64 << 20
)

// PlaceMany places up to n orders and stops after the frame in which one is rejected. It returns the ids
// of the accepted orders and the text of the first rejection, or "".
func (s *Session) PlaceMany(ctx context.Context, at Target, o BulkOrder, n int) (
	ids []uint64, refusal string, err error) {
	l, err := DialLine(ctx, at)
	if err != nil {
		return nil, "", err
	}
	defer l.Close()
	for sent, pending := 0, []int(nil); (sent < n && refusal == "") || len(pending) > 0; {
		for ; len(pending) < bulkDepth && sent < n && refusal == ""; sent += pending[len(pending)-1] {
			pending = append(pending, min(BulkAtOnce, n-sent))
			if err := l.Send(s.BulkFrame(o, pending[len(pending)-1])); err != nil {
				return ids, refusal, fmt.Errorf("check: bulk orders: %w", err)
			}
		}
		answers, err := l.Reply(BulkReplyMax)
		if err != nil {
			return ids, refusal, fmt.Errorf("check: bulk orders: %w", err)
		}
		pending = pending[1:]
		more, why := s.BulkAnswered(answers)
		ids = append(ids, more...)
		if refusal == "" {
			refusal = why
		}
	}
	return ids, refusal, nil
}

// CreateMany sends creates, BulkAtOnce elements in a frame, until one is rejected or n were sent. It
// returns how many were accepted and the text of the first rejection.
func CreateMany(ctx context.Context, at Target, n int, add func(c *wire.Create, i int), created func(i int)) (
	accepted int, refusal string, err error) {
	for i := 0; i < n && refusal == ""; i += BulkAtOnce {
		c, last := new(wire.Create), min(i+BulkAtOnce, n)
		for j := i; j < last; j++ {
			add(c, j)
		}
		answers, err := Ask(ctx, at, c.Append(nil))
		if err != nil {
			return accepted, refusal, err
		}
		if len(answers) != last-i {
			return accepted, refusal, fmt.Errorf("a frame of %d creates has %d answers", last-i, len(answers))
		}
		for j, a := range answers {
			if a.Kind == "created" {
				accepted++
				created(i + j)
			} else if refusal == "" {
				refusal = a.Error
			}
		}
	}
	return accepted, refusal, nil
}

// Full checks that an exchange accepted as many of something as its flag allows, and that the rejection
// of more names the flag and the bound.
func Full(what string, accepted, bound int, refusal, flag string) error {
	switch {
	case accepted != bound:
		return fmt.Errorf("the exchange accepted %d %s of %d; the first refusal: %q", accepted, what, bound, refusal)
	case !strings.Contains(refusal, flag) || !strings.Contains(refusal, strconv.Itoa(bound)):
		return fmt.Errorf("the refusal of more than %d %s does not name it and %s: %q", bound, what, flag, refusal)
	}
	return nil
}

// Expect sends a frame with one command and returns an error unless its answer is of the given kind.
func Expect(ctx context.Context, at Target, kind string, xml []byte) error {
	answers, err := Ask(ctx, at, xml)
	if err == nil && (len(answers) != 1 || answers[0].Kind != kind) {
		err = fmt.Errorf("%s is answered with %+v", xml, answers)
	}
	return err
}
