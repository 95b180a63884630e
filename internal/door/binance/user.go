package binance

import (
	"outcry/internal/door/jsontext"
	"outcry/internal/door/websocket"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// userStream is a connection's subscription to the events of an account. It is a listener to the view.
type userStream struct {
	door  *Door
	conn  *websocket.Conn
	id    int64
	leave func()
}

// begin subscribes to the account of a request. answer is sent before the first event.
func (u *userStream) begin(view *accounts.View, q *request, answer websocket.Frame) error {
	leave, err := view.Subscribe(q.account, 0, false, u, func(*accounts.Snapshot, []*exchange.AccountEvent) {
		u.conn.Push(answer, nil, 0)
		u.conn.Flush()
	})
	if err != nil {
		return err
	}
	u.leave = leave
	if q.grant != nil {
		stop := q.grant.AfterEnd(func() { u.conn.Cut(websocket.CodeUnauthorized, "the key has ended") })
		u.leave = func() {
			stop()
			leave()
		}
	}
	return nil
}

// Event implements accounts.Listener.
func (u *userStream) Event(e *exchange.AccountEvent) {
	eachReport(e, func(r *report) {
		if r.exec == execCanceled {
			r.canceledBy = u.door.cancels.get(r.order.ID)
		}
		u.push(appendReport(nil, r))
	})
	u.push(appendPosition(nil, e))
}

// push queues an event.
func (u *userStream) push(event []byte) {
	b := append(make([]byte, 0, len(event)+48), '{')
	b = jsontext.Number(b, "subscriptionId", u.id)
	b = jsontext.Raw(b, "event", event)
	u.conn.Push(websocket.NewFrame(append(b, '}')), nil, 0)
}

// Flush implements accounts.Listener.
func (u *userStream) Flush() { u.conn.Flush() }

// End implements accounts.Listener.
func (u *userStream) End(error) {
	u.conn.Close(websocket.CodeGoingAway, "the view of accounts is no longer available")
}
