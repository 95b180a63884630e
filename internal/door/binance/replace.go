package binance

import (
	"outcry/internal/door/asof"
	"outcry/internal/door/jsontext"
	"outcry/internal/exchange"
)

// replacement is a cancel-replace request: the old order, and the new order in its place.
type replacement struct {
	old       named
	place     exchange.Command
	resp      string
	cancelRef exchange.Ref // client id of the cancel
	onFailure bool         // place the new order even if the cancel fails
}

// readReplacement parses the parameters of a cancel-replace.
func readReplacement(q *request) (r replacement, problem *Error) {
	mode, problem := q.need("cancelReplaceMode")
	if problem != nil {
		return r, problem
	}
	switch mode {
	case "STOP_ON_FAILURE":
	case "ALLOW_FAILURE":
		r.onFailure = true
	default:
		return r, notValid("cancelReplaceMode")
	}
	if r.old, problem = q.readNamed("cancelOrderId", "cancelOrigClientOrderId"); problem != nil {
		return r, problem
	}
	if value := q.get("cancelNewClientOrderId"); value != "" {
		if r.cancelRef, problem = newRef("cancelNewClientOrderId", value); problem != nil {
			return r, problem
		}
	}
	r.place, r.resp, problem = readOrder(q)
	return r, problem
}

// cancelReplace answers POST order/cancelReplace.
//
// It amends the order if an amend can make the change: if the amend is rejected, the old order stays unchanged.
// Otherwise the old order is canceled and then the new one placed. If the new one is rejected, the old order is
// canceled, and the answer says so.
func (d *Door) cancelReplace(q *request) (work, *Error) {
	r, problem := readReplacement(q)
	return func() ([]byte, *Error) {
		defer d.watch(q)()
		old, problem := d.find(q, r.old)
		switch {
		case problem != nil:
			return nil, problem
		case old == nil || old.State != exchange.StatusOpen:
			return d.replaceNothing(q, &r)
		case r.mayAmend(old):
			return d.amend(q, &r, old)
		}
		return d.cancelAndPlace(q, &r, old)
	}, problem
}

// mayAmend reports whether an amend of the old order can make the new one, with a new id.
func (r *replacement) mayAmend(old *exchange.OrderDetail) bool {
	c := &r.place
	inPlace := c.Limit == old.Limit && c.Shares <= old.Open // an amend in place, which would keep the id
	return c.Type == exchange.Limited && old.Type == exchange.Limited && c.Side == old.Side && c.TIF == exchange.GTC &&
		old.TIF == exchange.GTC && c.Post == old.Post && (c.STP == old.STP || c.STP == exchange.TradeWithSelf) && !inPlace
}

// replaceNothing answers a request whose old order is not open.
func (d *Door) replaceNothing(q *request, r *replacement) ([]byte, *Error) {
	if !r.onFailure {
		return nil, replaceFailed(errReplaceFailed, "FAILURE", "NOT_ATTEMPTED", errCancelUnknown.json(), []byte("null"))
	}
	made, problem := d.placeNew(q, r)
	if problem != nil {
		return nil, replaceFailed(errReplaceFailed, "FAILURE", "FAILURE", errCancelUnknown.json(), problem.json())
	}
	return nil, replaceFailed(errReplacePartly, "FAILURE", "SUCCESS", errCancelUnknown.json(), made)
}

// placeNew places only the new order.
func (d *Door) placeNew(q *request, r *replacement) ([]byte, *Error) {
	done, problem := d.one(q, r.place)
	if problem != nil {
		return nil, problem
	}
	o, problem := d.first(q, done.Order, done.Seq)
	if problem != nil {
		return nil, problem
	}
	return appendNew(nil, o, r.resp), nil
}

// amend replaces the old order by an amend.
func (d *Door) amend(q *request, r *replacement, old *exchange.OrderDetail) ([]byte, *Error) {
	c := exchange.Command{Kind: exchange.AmendOrder, Order: old.ID, Shares: r.place.Shares,
		Terms: exchange.Terms{Side: old.Side, Limit: r.place.Limit},
		More:  &exchange.CommandMore{NewRef: r.place.Ref, Open: true}}
	drop := d.cancels.put(old.ID, r.cancelRef)
	done, problem := d.one(q, c)
	if problem != nil && problem != errUnknown { // after errUnknown the amend may have been done
		drop()
	}
	switch {
	case problem == errCancelUnknown: // the old order is no longer open
		return d.replaceNothing(q, r)
	case problem == errNow || problem == errUnknown || problem == errRate || problem == errTooOld:
		return nil, problem
	case problem != nil:
		return nil, replaceFailed(errReplaceFailed, "FAILURE", "FAILURE", problem.json(), problem.json())
	}
	by := done.Order
	if done.Amended != nil {
		by = done.Amended.By
	}
	o, problem := d.first(q, by, done.Seq)
	if problem != nil {
		return nil, problem
	}
	canceled, problem := d.replaced(q, old.ID, done.Seq)
	if problem != nil {
		return nil, problem
	}
	return appendReplaced(appendCanceled(nil, canceled, r.cancelRef), appendNew(nil, o, r.resp)), nil
}

// replaced returns an order that was replaced, by record seq, or by an older record if seq is 0.
func (d *Door) replaced(q *request, id exchange.OrderID, seq uint64) (*exchange.OrderDetail, *Error) {
	if seq != 0 {
		return d.after(q, id, seq)
	}
	_, seq, problem := d.seen(q)
	if problem != nil {
		return nil, problem
	}
	o, _, err := d.asof.Now(q.ctx, asof.Query{Account: q.account, Order: id, Seq: seq})
	if err != nil {
		return nil, errNow
	}
	return &o.OrderDetail, nil
}

// cancelAndPlace cancels the old order, and then places the new one.
func (d *Door) cancelAndPlace(q *request, r *replacement, old *exchange.OrderDetail) ([]byte, *Error) {
	canceled, problem := d.cancel(q, old.ID, r.cancelRef)
	switch {
	case problem == errCancelUnknown:
		return d.replaceNothing(q, r)
	case problem != nil:
		return nil, problem
	}
	answer := appendCanceled(nil, canceled, r.cancelRef)
	made, problem := d.placeNew(q, r)
	switch {
	case problem == errUnknown:
		return nil, problem
	case problem != nil:
		return nil, replaceFailed(errReplacePartly, "SUCCESS", "FAILURE", answer, problem.json())
	}
	return appendReplaced(answer, made), nil
}

// appendReplaced returns the answer to a successful cancel-replace.
func appendReplaced(canceled, made []byte) []byte {
	return appendHalves(nil, "SUCCESS", "SUCCESS", canceled, made)
}

// appendHalves appends the results of the cancel and of the new order.
func appendHalves(b []byte, canceled, made string, cancelAnswer, newAnswer []byte) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "cancelResult", canceled)
	b = jsontext.Word(b, "newOrderResult", made)
	b = jsontext.Raw(b, "cancelResponse", cancelAnswer)
	b = jsontext.Raw(b, "newOrderResponse", newAnswer)
	return append(b, '}')
}

// replaceFailed returns the error of a cancel-replace of which at least one half was not done.
func replaceFailed(e *Error, canceled, made string, cancelAnswer, newAnswer []byte) *Error {
	failed := *e
	failed.data = appendHalves(nil, canceled, made, cancelAnswer, newAnswer)
	return &failed
}
