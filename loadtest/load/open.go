package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"outcry/internal/wire"
)

// Open runs the open model with vegeta's attacker: rate frames a second for
// o.Duration, each over one of o.Connections connections. Where all of these are
// busy a frame waits, and that wait is part of its latency: Result.Latency counts
// from the moment at which the frame was due, Result.Sent from the moment at which
// it was sent. Only the second one is what vegeta itself reports, and a stall hides
// in it, since nothing is sent meanwhile.
//
// each, which may be nil, is told of every hit. The error says why a connection
// could not be made or broke.
func Open(ctx context.Context, o Options, rate int, source Source, each func(*vegeta.Result)) (*Result, error) {
	transport := &transport{source: source, idle: make(chan *exchangeConn, o.Connections)}
	defer transport.close()
	for range o.Connections {
		c, err := dial(ctx, o.Addr)
		if err != nil {
			return nil, err
		}
		transport.idle <- &exchangeConn{c, wire.NewFrameReader(c, replyBytesMax)}
	}
	// Not vegeta's options for connections and the like: they take the transport
	// for an *http.Transport and panic.
	attacker := vegeta.NewAttacker(vegeta.Client(&http.Client{Transport: transport}),
		vegeta.Workers(uint64(o.Connections)), vegeta.MaxWorkers(uint64(o.Connections)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()

	pacer := vegeta.ConstantPacer{Freq: rate, Per: time.Second}
	r := newRecorder(o)
	defer r.report()()
	c, sent := r.connection(), newHistogram()
	var broken error
	for hit := range attacker.Attack(transport.target, pacer, o.Duration, "outcry") {
		if hit.Error == vegeta.ErrNoTargets.Error() {
			continue // the source is done, and the attack ends
		}
		if each != nil {
			each(hit)
		}
		due := r.began.Add(time.Duration(float64(hit.Seq) / float64(rate) * float64(time.Second)))
		if due.After(hit.Timestamp) {
			due = hit.Timestamp // sent a little early
		}
		if hit.Error != "" && hit.Code == 0 {
			broken = fmt.Errorf("load: frame %d: %s", hit.Seq, hit.Error)
			attacker.Stop()
			continue
		}
		var unexpected error
		if hit.Code != http.StatusOK {
			unexpected = errors.New(string(hit.Body))
		}
		c.add(due, hit.End(), unexpected)
		_ = sent.RecordValue(min(max(int64(hit.Latency), latencyMin), latencyMax)) // in range
	}
	c.flush(r.began.Add(o.Duration))
	result := r.result()
	result.Sent = sent
	return result, errors.Join(broken, ctx.Err())
}

// transport carries vegeta's requests as frames: a request's body is the XML.
type transport struct {
	idle chan *exchangeConn

	mu     sync.Mutex // guards source
	source Source
}

type exchangeConn struct {
	net.Conn
	replies *wire.FrameReader
}

// target is vegeta's Targeter.
func (t *transport) target(to *vegeta.Target) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	xml := t.source.Next()
	if xml == nil {
		return vegeta.ErrNoTargets
	}
	to.Method, to.URL, to.Body = http.MethodPost, "http://outcry/xml", bytes.Clone(xml)
	return nil
}

// RoundTrip sends a request's body as a frame and returns the reply. A reply that
// the source did not expect has status 422, and the reason as its body.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	xml, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	c := <-t.idle
	defer func() { t.idle <- c }()
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.Write(wire.AppendFrame(nil, xml)); err != nil {
		return nil, err
	}
	reply, err := c.replies.Next()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	unexpected := t.source.Reply(reply)
	t.mu.Unlock()
	status, body := http.StatusOK, []byte(nil)
	if unexpected != nil {
		status, body = http.StatusUnprocessableEntity, []byte(unexpected.Error())
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: request}, nil
}

func (t *transport) close() {
	for {
		select {
		case c := <-t.idle:
			c.Close()
		default:
			return
		}
	}
}
