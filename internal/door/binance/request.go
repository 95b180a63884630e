package binance

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"outcry/internal/auth"
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// request is a client's request over HTTP or a WebSocket. Only its own goroutine uses it.
type request struct {
	ctx     context.Context
	address string // address of the client
	arrived time.Time
	expires time.Time // end of its recvWindow: no command is executed later; set by checkTime for signed routes
	key     string    // API key of the request
	values  map[string]string
	// signed is the signed text, and signature is the client's signature of it.
	signed, signature string

	// account and grant are set by know, for signed routes.
	account exchange.AccountID
	grant   *auth.Grant // nil without Options.Keys
	secret  string
}

// get returns a parameter, "" if it is absent.
func (q *request) get(name string) string { return q.values[name] }

// need returns a required parameter.
func (q *request) need(name string) (string, *Error) {
	if value := q.values[name]; value != "" {
		return value, nil
	}
	return "", missing(name)
}

// readREST parses the parameters of a query and a body. If a parameter is in both, the query's value is used. The
// signature covers the bytes as received: the query and the body joined without a separator, minus the signature.
func (q *request) readREST(query, body string) *Error {
	q.values = make(map[string]string)
	for _, part := range []string{query, body} {
		found := make(map[string]string)
		rest := part
		for part != "" {
			pair, more, _ := strings.Cut(part, "&")
			name, value, _ := strings.Cut(pair, "=")
			if name == "signature" {
				rest, q.signature = withoutPair(rest, pair), value
			} else if name != "" {
				name, errName := url.QueryUnescape(name)
				value, errValue := url.QueryUnescape(value)
				if errName != nil || errValue != nil {
					return bad(-1100, "Illegal characters found in a parameter.")
				}
				if _, twice := found[name]; twice {
					return bad(-1101, "Duplicate values for a parameter detected.")
				}
				found[name] = value
			}
			part = more
		}
		for name, value := range found {
			if _, there := q.values[name]; !there {
				q.values[name] = value
			}
		}
		q.signed += rest
	}
	return nil
}

// withoutPair returns a query string without one of its pairs and an adjacent &.
func withoutPair(query, pair string) string {
	if rest, last := strings.CutSuffix(query, pair); last {
		return strings.TrimSuffix(rest, "&")
	}
	if rest, first := strings.CutPrefix(query, pair+"&"); first {
		return rest
	}
	return strings.Replace(query, "&"+pair+"&", "&", 1)
}

// know looks up the account of the request's API key.
func (d *Door) know(q *request) *Error {
	if d.options.Keys == nil {
		id, err := exchange.ParseAccountID(q.key)
		if err != nil {
			return errNoKey
		}
		q.account = id
		return d.isThere(q)
	}
	grant, secret, err := d.options.Keys.Check(q.key)
	if err != nil {
		return d.wrong(q, err)
	}
	id, ok := grant.Scope.Account()
	if !ok {
		return errUnknownKey
	}
	q.account, q.grant, q.secret = id, grant, secret
	return nil
}

// isThere refuses the request if its account does not exist.
func (d *Door) isThere(q *request) *Error {
	view, _, problem := d.seen(q)
	if problem != nil {
		return problem
	}
	switch _, _, _, err := view.OpenOrders(q.account, "", 0, 1); {
	case errors.Is(err, accounts.ErrUnknownAccount):
		return errUnknownKey
	case err != nil:
		return errNow
	}
	return nil
}

// wrong refuses a request with an invalid key or signature. It delays the answer if the address sends many of them.
func (d *Door) wrong(q *request, why error) *Error {
	answer, slowed := d.options.Keys.Wrong(q.ctx, q.address)
	d.options.Log.Info("a request has no valid key, or no valid signature",
		"client", q.address, "error", why, "slowed", slowed)
	switch {
	case !answer:
		return errRate
	case errors.Is(why, auth.ErrKeyForm):
		return errNoKey
	case errors.Is(why, errSignature):
		return errSignature
	}
	return errUnknownKey
}

// mayLook refuses market data while the exchange requires keys and none exists: clients of this door send no key with
// requests for market data.
func (d *Door) mayLook() *Error {
	if d.options.Keys != nil && d.options.Keys.Count() == 0 {
		return errUnknownKey
	}
	return nil
}

// Bounds of a request's timestamp.
const (
	aheadMax       = time.Second // how far ahead a client's clock may be
	windowStandard = 5 * time.Second
	windowMax      = time.Minute
	microsFrom     = 100_000_000_000_000 // timestamps above it are in microseconds
)

// authorize checks that a request is recent and signed by the owner of its key.
func (d *Door) authorize(q *request) *Error {
	if problem := q.checkTime(); problem != nil {
		return problem
	}
	if q.signature == "" {
		return missing("signature")
	}
	if d.options.Keys == nil {
		return nil
	}
	if !q.isSigned() {
		return d.wrong(q, errSignature)
	}
	return nil
}

// isSigned reports whether the request has a valid signature with the key's secret.
func (q *request) isSigned() bool {
	mac := hmac.New(sha256.New, []byte(q.secret))
	_, _ = mac.Write([]byte(q.signed)) // never fails
	given, err := hex.DecodeString(q.signature)
	return err == nil && hmac.Equal(given, mac.Sum(nil))
}

// checkTime returns an error if the request's timestamp is too old or too new, else sets expires.
func (q *request) checkTime() *Error {
	value, problem := q.need("timestamp")
	if problem != nil {
		return problem
	}
	stamp, problem := whole("timestamp", value, 1)
	if problem != nil {
		return problem
	}
	sent := time.UnixMilli(stamp)
	if stamp > microsFrom {
		sent = time.UnixMicro(stamp)
	}
	window := windowStandard
	if value := q.get("recvWindow"); value != "" {
		ms, err := strconv.ParseFloat(value, 64)
		if _, problem := plainDecimal("recvWindow", value); problem != nil || err != nil {
			return illegal("recvWindow", legalDecimal)
		}
		if ms > float64(windowMax/time.Millisecond) {
			return errWindow
		}
		window = time.Duration(ms * float64(time.Millisecond))
	}
	switch {
	case sent.Sub(q.arrived) > aheadMax:
		return errTooNew
	case q.arrived.Sub(sent) > window:
		return errTooOld
	}
	q.expires = sent.Add(window)
	return nil
}
