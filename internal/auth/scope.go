// Package auth proves who is at the other end of a connection: by tokens, which say
// what their bearer may do, and by certificates.
//
// A token is outc_<id>_<secret>. The id is public: it stands in lists and logs. The
// secret is 256 random bits that are shown once, when the token is made. The file
// tokens of the data directory keeps SHA-256 of the whole token, and what it is for.
// Such a secret cannot be guessed, so a slow hash of it would gain nothing.
//
// Add, List and Revoke edit the file; a running server follows it (Tokens), and what
// it gives out for a token (Grant) ends when that is revoked or expires. The files of
// certificates are followed too (Certificates).
package auth

import (
	"fmt"
	"slices"
	"strings"

	"outcry/internal/exchange"
)

// Right is one thing that a Scope may allow.
type Right uint8

// The rights.
const (
	Probe   Right = iota + 1 // ask whether the exchange is alive and ready
	Market                   // read market data: books, trades, the page
	Orders                   // read single orders of anybody, without their owner
	Metrics                  // read what the exchange measures of itself
	Trade                    // send frames; what they may ask depends on the account
	Operate                  // halt, resume, cancel for others; log level and profiles
	Admin                    // everything
)

// Scope says what a token is for. The zero Scope allows nothing. It is immutable.
type Scope struct {
	name     string               // one of scopes, "" for the zero Scope
	accounts []exchange.AccountID // of scopeAccount, sorted; nil for all
}

// The scopes, except their accounts.
const (
	scopeAccount = "account"
	scopeAdmin   = "admin"
	scopeOperate = "operate"
	scopeRead    = "read"
	scopeHealth  = "health"
)

// rights are those of each scope except admin, which has all.
var rights = map[string][]Right{
	scopeAccount: {Probe, Market, Trade},
	scopeOperate: {Probe, Market, Orders, Metrics, Operate},
	scopeRead:    {Probe, Market, Orders, Metrics},
	scopeHealth:  {Probe},
}

// Scopes names the scopes that include a right, the least of them first: "operate or admin".
func (r Right) Scopes() string {
	var names []string
	for _, name := range []string{scopeHealth, scopeAccount, scopeRead, scopeOperate, scopeAdmin} {
		if (Scope{name: name}).Allows(r) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// HealthScope is the scope that allows nothing but Probe.
var HealthScope = Scope{name: scopeHealth}

// accountsMax is how many accounts one scope may name.
const accountsMax = 1000

// ParseScope reads a scope as people write it: "admin", "operate", "read", "health",
// "account:*" or "account:1,2". The error names what is wrong.
func ParseScope(text string) (Scope, error) {
	name, list, listed := strings.Cut(text, ":")
	if _, known := rights[name]; !known && name != scopeAdmin || listed != (name == scopeAccount) {
		return Scope{}, fmt.Errorf(`scope %.100q is not one of admin, operate, read, health, account:*, account:ID,ID`, text)
	}
	if !listed || list == "*" {
		return Scope{name: name}, nil
	}
	ids := strings.Split(list, ",")
	if len(ids) > accountsMax {
		return Scope{}, fmt.Errorf("a scope of %d accounts: at most %d may be named", len(ids), accountsMax)
	}
	s := Scope{name: name}
	for _, text := range ids {
		id, err := exchange.ParseAccountID(text)
		if err != nil {
			return Scope{}, fmt.Errorf("scope %.100q: %w", text, err)
		}
		s.accounts = append(s.accounts, id)
	}
	slices.Sort(s.accounts)
	s.accounts = slices.Compact(s.accounts)
	return s, nil
}

// String returns the scope as ParseScope reads it.
func (s Scope) String() string {
	if s.name != scopeAccount {
		return s.name
	}
	if s.accounts == nil {
		return scopeAccount + ":*"
	}
	ids := make([]string, len(s.accounts))
	for i, id := range s.accounts {
		ids[i] = string(id)
	}
	return scopeAccount + ":" + strings.Join(ids, ",")
}

// Name returns the scope without its accounts.
func (s Scope) Name() string { return s.name }

// Accounts returns the accounts that the scope names, sorted; nil if it names none, or is for all. Callers must not
// write to it.
func (s Scope) Accounts() []exchange.AccountID { return s.accounts }

// Allows reports whether the scope includes a right.
func (s Scope) Allows(r Right) bool {
	return s.IsAdmin() || slices.Contains(rights[s.name], r)
}

// IsAdmin reports whether the scope includes every right.
func (s Scope) IsAdmin() bool { return s.name == scopeAdmin }

// ActsFor reports whether the scope includes trading for an account.
func (s Scope) ActsFor(id exchange.AccountID) bool {
	if s.name != scopeAccount {
		return s.IsAdmin()
	}
	if s.accounts == nil {
		return true
	}
	_, found := slices.BinarySearch(s.accounts, id)
	return found
}
