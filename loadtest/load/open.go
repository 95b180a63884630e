package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"outcry/clients/go/client"
)

// sendingMax is how much longer than its duration an open run may take to send what
// was due in it.
const sendingMax = time.Minute

// Open runs the open model with vegeta's attacker: rate frames a second for
// o.Duration, over o.Connections connections, each with a source of its own. Where
// all of these are busy a frame waits, and that wait is part of its latency:
// Result.Latency counts from the moment at which the frame was due, Result.Sent from
// the moment at which it was sent. Only the second one is what vegeta itself
// reports, and a stall hides in it, since nothing is sent meanwhile. Every frame that
// was due is sent, if need be after o.Duration; those that are not for another
// minute count as errors.
//
// each, which may be nil, is told of every hit, with the time at which it was due and
// the latency from then on. The error says why a connection could not be made or
// broke.
func Open(ctx context.Context, o Options, rate int, source func(connection int) Source, each func(*vegeta.Result)) (*Result, error) {
	transport := &transport{idle: make(chan *exchangeConn, o.Connections)}
	defer transport.close()
	for n := range o.Connections {
		c, err := dial(ctx, o.Addr)
		if err != nil {
			return nil, err
		}
		transport.idle <- &exchangeConn{c, source(n)}
	}
	// Not vegeta's options for connections and the like: they take the transport
	// for an *http.Transport and panic.
	attacker := vegeta.NewAttacker(vegeta.Client(&http.Client{Transport: transport}),
		vegeta.Workers(uint64(o.Connections)), vegeta.MaxWorkers(uint64(o.Connections)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()

	p := &pacer{rate: rate, most: uint64(o.Duration.Seconds() * float64(rate)), until: o.Duration + sendingMax}
	r := newRecorder(o)
	defer r.report()()
	c, sent, hits := r.connection(), newHistogram(), uint64(0)
	var broken error
	var last time.Time // the end of the latest hit
	for hit := range attacker.Attack(target, p, 0, "outcry") {
		if hit.Error != "" && hit.Code == 0 {
			broken = fmt.Errorf("load: frame %d: %s", hit.Seq, hit.Error)
			attacker.Stop()
			continue
		}
		hits++
		due := r.began.Add(p.due(hit.Seq))
		if due.After(hit.Timestamp) {
			due = hit.Timestamp // sent a little early
		}
		_ = sent.RecordValue(min(max(int64(hit.Latency), latencyMin), latencyMax)) // in range
		var unexpected error
		if hit.Code != http.StatusOK {
			unexpected = errors.New(string(hit.Body))
		}
		c.add(due, hit.End(), unexpected)
		if hit.End().After(last) {
			last = hit.End()
		}
		if each != nil {
			hit.Timestamp, hit.Latency = due, hit.End().Sub(due)
			each(hit)
		}
	}
	c.flush(last)
	result := r.result()
	result.BytesOut, result.BytesIn = transport.bytesOut.Load(), transport.bytesIn.Load()
	result.Sent = sent
	if missing := p.most - hits; missing > 0 && broken == nil && ctx.Err() == nil {
		result.Errors += missing
		result.Examples = append(result.Examples, fmt.Sprintf("%d frames were due and not sent: %d a second is more than is done", missing, rate))
	}
	return result, errors.Join(broken, ctx.Err())
}

// pacer paces an attack evenly. Unlike vegeta's it ends with a number of hits instead
// of a time: what is due in a stall is sent behind it.
type pacer struct {
	rate  int
	most  uint64
	until time.Duration
}

// due returns when a hit, counted from 0, is to be sent.
func (p *pacer) due(hit uint64) time.Duration {
	return time.Duration(float64(hit) / float64(p.rate) * float64(time.Second))
}

// Pace implements vegeta.Pacer.
func (p *pacer) Pace(elapsed time.Duration, hits uint64) (wait time.Duration, stop bool) {
	if hits >= p.most || elapsed > p.until {
		return 0, true
	}
	return max(p.due(hits)-elapsed, 0), false
}

// Rate implements vegeta.Pacer.
func (p *pacer) Rate(time.Duration) float64 { return float64(p.rate) }

// target is vegeta's Targeter. What is sent is up to the connection that is free.
func target(to *vegeta.Target) error {
	to.Method, to.URL = http.MethodPost, "http://outcry/xml"
	return nil
}

// transport carries vegeta's requests as frames.
type transport struct {
	idle              chan *exchangeConn
	bytesOut, bytesIn atomic.Uint64
}

// exchangeConn is a connection, for whoever has taken it from the idle ones.
type exchangeConn struct {
	*client.Conn
	source Source
}

// errDone says that a source has no more frames.
var errDone = errors.New("a connection has no more frames to send")

// RoundTrip sends the next frame of a connection that is free, and returns the
// reply. A reply that the source did not expect has status 422, and the reason as
// its body.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	c := <-t.idle
	defer func() { t.idle <- c }()
	xml := c.source.Next()
	if xml == nil {
		return nil, errDone
	}
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	t.bytesOut.Add(uint64(len(xml)))
	c.SendFrame(xml)
	if err := c.Flush(); err != nil {
		return nil, err
	}
	reply, err := c.NextReply()
	if err != nil {
		return nil, err
	}
	t.bytesIn.Add(uint64(len(reply)))
	status, body := http.StatusOK, []byte(nil)
	if unexpected := c.source.Reply(reply); unexpected != nil {
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
