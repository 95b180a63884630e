package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"outcry/internal/journal"
)

// Client sends requests to nodes without a Net; a node uses it before it has a Net.
type Client struct{ caller caller }

// NewClient returns a client that acts as the node of hello. judge is called with the hello of each
// node that answers; see Options.OnHello.
func NewClient(hello Hello, security Security, judge func(Hello) error) *Client {
	hello.ProtocolVersion = ProtocolVersion
	return &Client{caller{node: hello.Node, hello: func() Hello { return hello }, judge: judge, security: security}}
}

// Backup writes a backup of a node to w, in the format of package backup. The error is a
// *RefusedError, reports that the node does not answer or why it failed, or is w's. After an error
// the backup is incomplete.
func (c *Client) Backup(ctx context.Context, node uint64, address string, w io.Writer) error {
	return c.caller.request(ctx, node, address, forBackup, nil, MessageBytesMax, func(b []byte) error {
		_, err := w.Write(b)
		return err
	})
}

// Ask sends a request of at most AskRequestMax bytes to a node and returns its answer. The error is
// a *RefusedError, or reports that the node does not answer or why it failed.
func (c *Client) Ask(ctx context.Context, node uint64, address string, request []byte) ([]byte, error) {
	return c.caller.ask(ctx, node, address, request)
}

// Fetch calls take with the records from first to last of a peer's journal, in order. A record is
// valid during the call. The error is that of take, a *RefusedError, wraps journal.ErrGone if the
// peer no longer has all of them, or reports that the peer does not answer or why it failed. take
// was called for all records before the error.
func (n *Net) Fetch(ctx context.Context, peer, first, last uint64, take func(seq uint64, record []byte) error) error {
	address, err := n.address(peer)
	if err != nil {
		return err
	}
	request, err := json.Marshal(fetchRequest{first, last})
	if err != nil {
		return err
	}
	next := first
	err = n.caller.request(ctx, peer, address, forFetch, request, MessageBytesMax, func(record []byte) error {
		if next > last {
			return fmt.Errorf("%w: a record after record %d, the last one requested", errFrame, last)
		}
		next++
		return take(next-1, record)
	})
	if err == nil && next <= last {
		err = fmt.Errorf("peers: node %d has sent records only up to %d instead of %d", peer, next-1, last)
	}
	return err
}

// Backup writes a backup of a peer to w; see Client.Backup.
func (n *Net) Backup(ctx context.Context, peer uint64, w io.Writer) error {
	address, err := n.address(peer)
	if err != nil {
		return err
	}
	return (&Client{n.caller}).Backup(ctx, peer, address, w)
}

// Ask sends a request to a peer; see Client.Ask.
func (n *Net) Ask(ctx context.Context, peer uint64, request []byte) ([]byte, error) {
	address, err := n.address(peer)
	if err != nil {
		return nil, err
	}
	return n.caller.ask(ctx, peer, address, request)
}

func (c *caller) ask(ctx context.Context, node uint64, address string, request []byte) ([]byte, error) {
	if len(request) > AskRequestMax {
		return nil, fmt.Errorf("peers: a request has %d bytes, more than %d", len(request), AskRequestMax)
	}
	var reply bytes.Buffer
	err := c.request(ctx, node, address, forAsk, request, AskBytesMax+1, func(b []byte) error {
		if reply.Len()+len(b) > AskBytesMax {
			return fmt.Errorf("%w: the answer has more than %d bytes", errFrame, AskBytesMax)
		}
		reply.Write(b)
		return nil
	})
	return reply.Bytes(), err
}

// request makes a connection for one request and calls take with the data of each data frame of the
// answer. Frames have at most max bytes.
func (c *caller) request(ctx context.Context, node uint64, address string, use purpose, request []byte, max int,
	take func([]byte) error) error {
	conn, err := c.open(ctx, node, address, use, request)
	if err == nil {
		defer conn.Close()
		err = readAnswer(patient{conn}, max, take)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("peers: %s of node %d: %w", use, node, err)
	}
	return nil
}

// readAnswer calls take with the data of each data frame until the end of the answer.
func readAnswer(r io.Reader, max int, take func([]byte) error) error {
	frames := frameReader{r: bufio.NewReaderSize(r, readStep)}
	for {
		b, err := frames.next(max)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return fmt.Errorf("%w: it is empty", errFrame)
		}
		switch b[0] {
		case tagData:
			if err := take(b[1:]); err != nil {
				return err
			}
		case tagKeep:
		case tagEnd:
			return nil
		case tagError:
			var f failure
			if err := json.Unmarshal(b[1:], &f); err != nil {
				return fmt.Errorf("%w: %w", errFrame, err)
			}
			if f.Gone {
				return fmt.Errorf("%w: %s", journal.ErrGone, f.Text)
			}
			return errors.New(f.Text)
		default:
			return fmt.Errorf("%w: tag 0x%02x", errFrame, b[0])
		}
	}
}

// patient is a connection whose reads fail after silenceMax without data.
type patient struct{ net.Conn }

// Read implements io.Reader.
func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}
