package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Reasons why a grant has ended. Their texts are for the bearer.
var (
	ErrRevoked = errors.New("the token was revoked")
	ErrExpired = errors.New("the token has expired")
)

// errUnknown means that no token has this id and secret.
var errUnknown = errors.New("no such token")

// Grant holds the permissions of a valid token. It ends when the token expires or is revoked. Its methods may
// be called from any goroutine.
type Grant struct {
	ID    string // id of the token
	Scope Scope

	entry Entry
	ctx   context.Context // ends with the grant; its cause is the reason
	end   context.CancelCauseFunc
	free  context.CancelFunc // stops the timer of the expiry
}

func newGrant(e Entry) *Grant {
	g := &Grant{ID: e.ID, Scope: e.Scope, entry: e, free: func() {}}
	ctx := context.Background()
	if !e.Expires.IsZero() {
		ctx, g.free = context.WithDeadlineCause(ctx, e.Expires, ErrExpired)
	}
	g.ctx, g.end = context.WithCancelCause(ctx)
	return g
}

// stop ends a grant for the given reason.
func (g *Grant) stop(why error) {
	g.end(why)
	g.free()
}

// Err returns nil while the grant is valid, then ErrRevoked or ErrExpired.
func (g *Grant) Err() error {
	if g.ctx.Err() == nil {
		return nil
	}
	return context.Cause(g.ctx)
}

// AfterEnd calls f in its own goroutine once the grant has ended. stop cancels that, with the result of the
// stop function of context.AfterFunc.
func (g *Grant) AfterEnd(f func()) (stop func() bool) { return context.AfterFunc(g.ctx, f) }

// Tokens are the valid tokens of a running server. Its methods may be called from any goroutine.
type Tokens struct {
	kind    kind
	path    string
	log     *slog.Logger
	seen    []stamp // state of the file when it was first read
	file    readings
	guesses *guesses

	// mu guards the fields below.
	mu     sync.RWMutex
	grants map[string]*Grant // tokens in the file, by id
	issued map[string]*Grant // tokens that are not in the file, by id
}

// OpenTokens reads the tokens of a data directory; there are none if the file does not exist. Run follows the
// file. The error says what is wrong with it.
func OpenTokens(dir string, log *slog.Logger) (*Tokens, error) { return kindTokens.open(dir, log) }

// open reads the file of a data directory.
func (k kind) open(dir string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{kind: k, path: filepath.Join(dir, k.file()), log: log, guesses: newGuesses(),
		grants: make(map[string]*Grant), issued: make(map[string]*Grant)}
	t.seen = stampsOf([]string{t.path})
	return t, t.Reload()
}

// Run follows the file until ctx ends: a change takes effect within half a second. A file that cannot be read
// is logged, and changes nothing. If the file is deleted, all its tokens are revoked.
func (t *Tokens) Run(ctx context.Context) {
	follow(ctx, []string{t.path}, t.seen, t.Reload, t.Failed, t.expire, t.log)
}

// Prepare reads the file and returns a function that puts it into use. After an error, or if apply is not
// called, nothing has changed.
func (t *Tokens) Prepare() (apply func(), err error) {
	return t.file.prepare(func() (func(), error) {
		all, err := t.kind.read(t.path)
		return func() { t.replace(all) }, err
	})
}

// Reload reads the file and puts it into use. After an error nothing has changed.
func (t *Tokens) Reload() error {
	apply, err := t.Prepare()
	if err == nil {
		apply()
	}
	return err
}

// Failed returns the error of the last reading of the file, nil if it succeeded.
func (t *Tokens) Failed() error { return t.file.failed() }

// replace makes exactly the given tokens valid, and ends the grants of all others.
func (t *Tokens) replace(all []Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.grants
	t.grants = make(map[string]*Grant, len(all))
	for _, e := range all {
		g := before[e.ID]
		if g == nil || !g.entry.sameAs(&e) {
			g = newGrant(e)
		}
		t.grants[e.ID] = g
	}
	for id, g := range before {
		if t.grants[id] != g {
			g.stop(ErrRevoked)
			t.log.Info("a token is revoked or changed", "token", id)
		}
	}
}

// sameAs reports whether two entries give the same permissions. It ignores the notes.
func (e *Entry) sameAs(o *Entry) bool {
	return e.Hash == o.Hash && e.Scope.String() == o.Scope.String() && e.Expires.Equal(o.Expires)
}

// expire ends grants that have expired by the present clock. The timers of grants do not notice when the
// clock is set.
func (t *Tokens) expire() {
	now := time.Now()
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, g := range t.grants {
		if !g.entry.Expires.IsZero() && !now.Before(g.entry.Expires) {
			g.stop(ErrExpired)
		}
	}
}

// Count returns the number of tokens in the file that have not expired.
func (t *Tokens) Count() (n int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, g := range t.grants {
		if g.Err() == nil {
			n++
		}
	}
	return n
}

// Check returns the grant of a token. The error is for the log, not for the client that presents the token.
// It does not quote the token, but says what is wrong, and names the id of a well-formed token.
func (t *Tokens) Check(token string) (*Grant, error) {
	id, err := splitToken(token)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	g := t.grants[id]
	if g == nil {
		g = t.issued[id]
	}
	t.mu.RUnlock()
	var want [sha256.Size]byte // the hash of no token
	if g != nil {
		want = g.entry.Hash
	}
	have := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(have[:], want[:]) != 1 || g == nil {
		return nil, fmt.Errorf("token %s: %w", id, errUnknown)
	}
	if !g.entry.Expires.IsZero() && !time.Now().Before(g.entry.Expires) {
		g.stop(ErrExpired)
	}
	if err := g.Err(); err != nil {
		return nil, fmt.Errorf("token %s: %w", id, err)
	}
	return g, nil
}

// IssueHealth creates a token with HealthScope that is valid as long as t is in use. It writes the token to a file of
// the data directory that only the server's user can read; HealthToken reads it. remove deletes the file.
func (t *Tokens) IssueHealth() (remove func(), err error) {
	token, e := newToken()
	e.Scope = HealthScope
	path := filepath.Join(filepath.Dir(t.path), healthFile)
	if err := replaceFile(path, []byte(token+"\n")); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued = maps.Clone(t.issued)
	t.issued[e.ID] = newGrant(e)
	// If the removal fails, the next start replaces the file.
	return func() { _ = os.Remove(path) }, nil
}

// HealthToken returns the token that IssueHealth has written into a data directory, "" if it has none.
func HealthToken(dir string) (string, error) {
	token, err := ReadToken(filepath.Join(dir, healthFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return token, err
}

// ReadToken reads a token from a file that contains nothing else. The error names the file and does not quote
// its content.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("auth: %w", err)
	}
	defer f.Close()
	var text [tokenLen + 16]byte
	n, err := readUpTo(f, text[:])
	if err != nil {
		return "", fmt.Errorf("auth: read %s: %w", path, err)
	}
	token, err := CleanToken(string(text[:n]))
	if err != nil {
		return "", fmt.Errorf("auth: %s: %w", path, err)
	}
	return token, nil
}
