package door

import (
	"fmt"
	"time"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// accepts reports whether a client with this grant may execute any commands; nil means no grant.
func (s *Server) accepts(grant *auth.Grant) bool {
	return s.options.Tokens == nil || grant != nil && grant.Err() == nil
}

// judge decides which commands of one batch or Call are executed, whatever their protocol.
type judge struct {
	caller *Caller
	rate   int64     // commands per second of an account, 0 for no limit
	now    time.Time // when the batch arrived; set only if there is a rate
	lagged bool      // the caller, or another client, may be above its share of the followers' work
}

// judge returns the judge of a batch or Call that arrives now.
func (c *Caller) judge() judge {
	j := judge{caller: c, rate: c.server.accountRate.Load(),
		lagged: c.own.sum > lagMax || c.server.payers.over.Load() > 0}
	if j.rate > 0 {
		j.now = time.Now()
	}
	return j
}

// admit returns the refusal of a command, the zero value if the command is allowed. It sets those fields of the
// Request that are not part of the command.
func (j *judge) admit(c *engine.Request) (refusal exchange.Refusal) {
	if j.demandsGrant() {
		if refusal = j.permit(&c.Command); refusal.Reason != exchange.OK {
			j.caller.server.options.Metrics.authDenied.Inc()
			return refusal
		}
		c.OwnOnly = c.Kind == exchange.QueryOrder && !j.caller.grant.Scope.IsAdmin()
	}
	if j.rate > 0 {
		if refusal = j.pace(c); refusal.Reason != exchange.OK {
			return refusal
		}
	}
	if j.lagged && (c.Kind == exchange.PlaceOrder || c.Kind == exchange.AmendOrder) {
		if refusal = j.lags(c); refusal.Reason != exchange.OK {
			return refusal
		}
	}
	if c.OnDisconnect {
		c.Origin = j.caller.originOfOrders()
	}
	return refusal
}

// demandsGrant reports whether the commands need the permission of a grant, which the caller has.
func (j *judge) demandsGrant() bool { return j.caller.grant != nil }

// permit returns a refusal if the token does not allow the command, else the zero value.
func (j *judge) permit(c *exchange.Command) (refusal exchange.Refusal) {
	scope := j.caller.grant.Scope
	allowed := scope.ActsFor(c.Account)
	switch c.Kind {
	case exchange.OpenAccount, exchange.MakeSymbol, exchange.DepositShares:
		allowed = scope.IsAdmin()
	case exchange.PlaceOrder, exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.AmendOrder,
		exchange.CancelAll, exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
	}
	if !allowed {
		r := exchange.Result{Reason: exchange.NotAllowed}
		refusal = exchange.Refusal{Reason: r.Reason, Text: r.Text(c)}
	}
	return refusal
}

// pace returns a refusal if the account is over its rate, else the zero value. A command with a ref is passed
// on even then, with Repeat set, as it may be a repetition of one that was done. In that case the client gets
// the first answer once more; a refusal could make it send the same order under another ref.
func (j *judge) pace(c *engine.Request) (refusal exchange.Refusal) {
	ref := c.Ref
	switch c.Kind {
	case exchange.OpenAccount, exchange.DepositShares, exchange.PlaceOrder:
	case exchange.AmendOrder:
		if ref = ""; c.More != nil {
			ref = c.More.NewRef // c.Ref names the order to amend
		}
	case exchange.MakeSymbol, exchange.QueryOrder, exchange.CancelOrder, exchange.ShowOrder, exchange.CancelAll,
		exchange.SetSwitch, exchange.ShowAccount, exchange.ListOrders, exchange.ListFills:
		return refusal
	}
	wait := j.caller.server.accounts.spend(c.Account, j.rate, j.now)
	if wait == 0 {
		return refusal
	}
	j.caller.server.options.Metrics.hit(limitRateAccount)
	if ref != "" {
		c.Repeat = true
		return refusal
	}
	return exchange.Refusal{Reason: exchange.RateExceeded, Text: fmt.Sprintf(
		"account %s is over its limit of %d orders and creates per second; try again in %s", c.Account, j.rate,
		roundUp(wait))}
}
