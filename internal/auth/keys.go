package auth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"outcry/internal/exchange"
)

// A key is a pair: the key itself, which is public and is also its id, and a secret. The owner signs requests
// with the secret (HMAC-SHA256), so the secret is never sent. The server must compute the same signatures. So
// the file hmac-keys of the data directory holds the secrets in plain text: anyone who can read it can trade
// as the keys' owners.

// Errors of Keys.Check.
var (
	ErrKeyForm    = errors.New("malformed key")
	ErrKeyUnknown = errors.New("no such key")
)

// AddKey makes a key for one account and adds it to the file of the data directory dir. expires, note and
// errors are as for Add. secret is the text that requests are signed with.
func AddKey(dir string, account exchange.AccountID, expires time.Time, note string) (secret string, e Entry,
	err error) {
	if err := checkNote(note); err != nil {
		return "", Entry{}, err
	}
	var id [idDigits / 2]byte
	_, _ = rand.Read(id[:]) // never returns an error
	_, _ = rand.Read(e.Hash[:])
	e.ID, e.Expires, e.Note = hex.EncodeToString(id[:]), expires, note
	e.Scope = Scope{name: scopeAccount, accounts: []exchange.AccountID{account}}
	if err := kindKeys.add(dir, &e); err != nil {
		return "", Entry{}, err
	}
	return e.secret(), e, nil
}

// secret returns the text that the owner of a key signs with.
func (e *Entry) secret() string { return hex.EncodeToString(e.Hash[:]) }

// ListKeys returns the keys in the file of a data directory, oldest first. It returns none if there is no
// file.
func ListKeys(dir string) ([]Entry, error) { return kindKeys.read(filepath.Join(dir, KeysFile)) }

// Account returns the account of a scope that names exactly one account; otherwise ok is false.
func (s Scope) Account() (id exchange.AccountID, ok bool) {
	if len(s.accounts) != 1 {
		return "", false
	}
	return s.accounts[0], true
}

// Keys are the valid keys of a running server. Its methods may be called from any goroutine.
type Keys struct{ tokens *Tokens }

// OpenKeys reads the keys of a data directory; there are none if the file does not exist. Run follows the
// file. The error says what is wrong with it.
func OpenKeys(dir string, log *slog.Logger) (*Keys, error) {
	t, err := kindKeys.open(dir, log)
	return &Keys{t}, err
}

// Run follows the file of keys until ctx ends, as Tokens.Run does.
func (k *Keys) Run(ctx context.Context) { k.tokens.Run(ctx) }

// Prepare reads the file of keys, and returns a function that puts it into use, as Tokens.Prepare does.
func (k *Keys) Prepare() (apply func(), err error) { return k.tokens.Prepare() }

// Failed returns the error of the last reading of the file, nil if it succeeded.
func (k *Keys) Failed() error { return k.tokens.Failed() }

// Count returns the number of keys that have not expired.
func (k *Keys) Count() int { return k.tokens.Count() }

// Wrong counts an unknown key or a wrong signature, with the results of Tokens.Wrong.
func (k *Keys) Wrong(ctx context.Context, address string) (answer, slowed bool) {
	return k.tokens.Wrong(ctx, address)
}

// Check returns the grant of a key and the secret that its owner signs with. The error is ErrKeyForm, or
// wraps ErrKeyUnknown, ErrRevoked or ErrExpired.
func (k *Keys) Check(key string) (g *Grant, secret string, err error) {
	if len(key) != idDigits || !isHex(key) {
		return nil, "", ErrKeyForm
	}
	t := k.tokens
	t.mu.RLock()
	g = t.grants[key]
	t.mu.RUnlock()
	if g == nil {
		return nil, "", fmt.Errorf("key %s: %w", key, ErrKeyUnknown)
	}
	if !g.entry.Expires.IsZero() && !time.Now().Before(g.entry.Expires) {
		g.stop(ErrExpired)
	}
	if err := g.Err(); err != nil {
		return nil, "", fmt.Errorf("key %s: %w", key, err)
	}
	return g, g.entry.secret(), nil
}
