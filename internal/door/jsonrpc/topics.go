package jsonrpc

import (
	"errors"
	"time"

	"outcry/internal/door/fanout"
	"outcry/internal/door/websocket"
)

// slowTime is the minimum time between two messages of a channel that is not sent for each record.
const slowTime = 100 * time.Millisecond

// The fan-out of market data to the readers of this door.
type (
	topic   = fanout.Topic[*reader]
	encoder = fanout.Encoder[*reader]
	noops   = fanout.Plain[*reader]
)

// errNoMarket means that there is no market data.
var errNoMarket = errors.New("rpc: there is no market data")

// join adds the reader to the topic of its channel.
func (r *reader) join(newEncoder func() encoder) (leave func(), err error) {
	feed := r.conn.door.options.Feed()
	if feed == nil {
		return nil, errNoMarket
	}
	return r.conn.door.hub.Join(feed, r.channel.sym, r.channel.name, r, newEncoder)
}

// FlushSoon implements fanout.Reader.
func (r *reader) FlushSoon() { r.conn.socket.FlushSoon() }

// End implements fanout.Reader.
func (r *reader) End() { r.conn.socket.Close(websocket.CodeGoingAway, "market data has ended") }

// paced is the pace of an encoder that sends at most one message in slowTime.
type paced struct{ pace fanout.Pace }

func newPaced() paced { return paced{fanout.Pace{Every: slowTime}} }

// may reports whether a message may be sent now. Otherwise it schedules the call of Tick at which one may be sent.
func (p *paced) may(t *topic) bool {
	now := time.Now()
	if at := p.pace.Next(now); at.After(now) {
		t.WakeAt(at)
		return false
	}
	p.pace.Sent(now)
	return true
}
