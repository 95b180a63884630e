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

// A key is a pair: the key itself, which is public and also its id, and a secret with which its owner signs requests
// (HMAC-SHA256), so that it is never sent. The server has to make the same signatures, and so the file hmac-keys of the
// data directory holds the secrets as they are: who reads it can trade as their owners.

// Why a key is not taken.
var (
	ErrKeyForm    = errors.New("not the form of a key")
	ErrKeyUnknown = errors.New("no such key")
)

// AddKey makes a key for one account and writes it to the file of the data directory dir. expires, note and errors are
// those of Add. secret is what requests are signed with, as text.
func AddKey(dir string, account exchange.AccountID, expires time.Time, note string) (secret string, e Entry,
	err error) {
	if err := checkNote(note); err != nil {
		return "", Entry{}, err
	}
	var id [idDigits / 2]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(e.Hash[:])
	e.ID, e.Expires, e.Note = hex.EncodeToString(id[:]), expires, note
	e.Scope = Scope{name: scopeAccount, accounts: []exchange.AccountID{account}}
	if err := kindKeys.add(dir, &e); err != nil {
		return "", Entry{}, err
	}
	return e.secret(), e, nil
}

// secret returns what the owner of a key signs with.
func (e *Entry) secret() string { return hex.EncodeToString(e.Hash[:]) }

// ListKeys returns the keys in the file of a data directory, oldest first; nothing where there is no file.
func ListKeys(dir string) ([]Entry, error) { return kindKeys.read(filepath.Join(dir, KeysFile)) }

// Account returns the account that a scope is for if it is exactly one.
func (s Scope) Account() (id exchange.AccountID, ok bool) {
	if len(s.accounts) != 1 {
		return "", false
	}
	return s.accounts[0], true
}

// Keys are those that a running server takes. Its methods may be called from any goroutine.
type Keys struct{ tokens *Tokens }

// OpenKeys is OpenTokens for keys.
func OpenKeys(dir string, log *slog.Logger) (*Keys, error) {
	t, err := kindKeys.open(dir, log)
	return &Keys{t}, err
}

// Run is Tokens.Run.
func (k *Keys) Run(ctx context.Context) { k.tokens.Run(ctx) }

// Prepare is Tokens.Prepare.
func (k *Keys) Prepare() (apply func(), err error) { return k.tokens.Prepare() }

// Failed is Tokens.Failed.
func (k *Keys) Failed() error { return k.tokens.Failed() }

// Count returns how many keys there are that have not expired.
func (k *Keys) Count() int { return k.tokens.Count() }

// Wrong is Tokens.Wrong, for an unknown key or a wrong signature.
func (k *Keys) Wrong(ctx context.Context, address string) (answer, slowed bool) {
	return k.tokens.Wrong(ctx, address)
}

// Check returns what a key allows, and the secret that its owner signs with. The error is ErrKeyForm, or has
// ErrKeyUnknown, ErrRevoked or ErrExpired in it.
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
