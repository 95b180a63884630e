// Package auth authenticates clients: by tokens, which carry their bearer's permissions, and by certificates.
//
// A token is outc_<id>_<secret>. The id is public: it appears in lists and logs. The secret is 256 random
// bits that are shown once, when the token is made. The file tokens of the data directory holds the SHA-256
// of the whole token and its scope. Such a secret cannot be guessed, so a slow hash would gain nothing.
//
// Add, List and Revoke edit the file. A running server follows it (Tokens). The Grant that it gives for a
// token ends when the token is revoked or expires. The files of certificates are followed too (Certificates).
package auth

import (
	"fmt"
	"slices"
	"strings"

	"outcry/internal/exchange"
)

// Right is one permission that a Scope may include.
type Right uint8

// The rights.
const (
	Probe   Right = iota + 1 // ask whether the exchange is alive and ready
	Market                   // read market data: books, trades, the page
	Orders                   // read single orders of any account, without their owner
	Metrics                  // read the exchange's metrics
	Trade                    // send frames; the account decides which commands are allowed
	Operate                  // halt, resume, cancel for others, set the log level, take profiles
	Admin                    // everything
)

// Scope is the set of permissions of a token. The zero Scope allows nothing. It is immutable.
type Scope struct {
	name     string               // one of the scope constants, "" for the zero Scope
	accounts []exchange.AccountID // accounts of scopeAccount, sorted; nil for all
}

// The names of scopes, without accounts.
const (
	scopeAccount = "account"
	scopeAdmin   = "admin"
	scopeOperate = "operate"
	scopeRead    = "read"
	scopeHealth  = "health"
)

// rights lists the rights of each scope except admin, which has all.
var rights = map[string][]Right{
	scopeAccount: {Probe, Market, Trade},
	scopeOperate: {Probe, Market, Orders, Metrics, Operate},
	scopeRead:    {Probe, Market, Orders, Metrics},
	scopeHealth:  {Probe},
}

// Scopes returns the names of the scopes that include a right, the least powerful first: "operate or admin".
func (r Right) Scopes() string {
	var names []string
	for _, name := range []string{scopeHealth, scopeAccount, scopeRead, scopeOperate, scopeAdmin} {
		if (Scope{name: name}).Allows(r) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// HealthScope is the scope that allows only Probe.
var HealthScope = Scope{name: scopeHealth}

// accountsMax is the number of accounts that one scope may name.
const accountsMax = 1000

// ParseScope reads a scope in text form: "admin", "operate", "read", "health", "account:*" or "account:1,2".
// The error says what is wrong.
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

// String returns the text form that ParseScope reads.
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

// Accounts returns the accounts that the scope names, sorted; nil if it names none or allows all. Callers
// must not modify it.
func (s Scope) Accounts() []exchange.AccountID { return s.accounts }

// Allows reports whether the scope includes a right.
func (s Scope) Allows(r Right) bool {
	return s.IsAdmin() || slices.Contains(rights[s.name], r)
}

// IsAdmin reports whether the scope includes every right.
func (s Scope) IsAdmin() bool { return s.name == scopeAdmin }

// ActsFor reports whether the scope allows trading for an account.
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
