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

// Why a grant has ended. The texts are for the bearer.
var (
	ErrRevoked = errors.New("the token was revoked")
	ErrExpired = errors.New("the token has expired")
)

// errUnknown says that no token has that id and secret.
var errUnknown = errors.New("no such token")

// Grant is what a token allows, for as long as it does. Its methods may be called from
// any goroutine.
type Grant struct {
	ID    string // of the token
	Scope Scope

	entry Entry
	ctx   context.Context // ends with the grant; its cause is why
	end   context.CancelCauseFunc
	free  context.CancelFunc // of what waits for the expiry
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

// stop ends a grant for a reason.
func (g *Grant) stop(why error) {
	g.end(why)
	g.free()
}

// Err returns nil while the grant lasts, then ErrRevoked or ErrExpired.
func (g *Grant) Err() error {
	if g.ctx.Err() == nil {
		return nil
	}
	return context.Cause(g.ctx)
}

// AfterEnd calls f in a goroutine of its own once the grant has ended. stop takes that
// back, as context.AfterFunc's does.
func (g *Grant) AfterEnd(f func()) (stop func() bool) { return context.AfterFunc(g.ctx, f) }

// Tokens are those that a running server takes. Its methods may be called from any
// goroutine.
type Tokens struct {
	kind    kind
	path    string
	log     *slog.Logger
	seen    []stamp // when the file was first read
	file    readings
	guesses *guesses

	// mu guards what follows.
	mu     sync.RWMutex
	grants map[string]*Grant // by id
	issued map[string]*Grant // those that are not in the file
}

// OpenTokens reads the file of a data directory. One that is not there has no token
// yet. Run follows it. The error says what is wrong with the file.
func OpenTokens(dir string, log *slog.Logger) (*Tokens, error) { return kindTokens.open(dir, log) }

// open reads the file of a data directory.
func (k kind) open(dir string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{kind: k, path: filepath.Join(dir, k.file()), log: log, guesses: newGuesses(),
		grants: make(map[string]*Grant), issued: make(map[string]*Grant)}
	t.seen = stampsOf([]string{t.path})
	return t, t.Reload()
}

// Run follows the file until ctx ends: what changes in it takes effect within half a
// second. A file that cannot be read is logged, and changes nothing; one that is gone
// revokes all its tokens.
func (t *Tokens) Run(ctx context.Context) {
	follow(ctx, []string{t.path}, t.seen, t.Reload, t.Failed, t.expire, t.log)
}

// Prepare reads the file, and returns what puts it in force. After an error, or without
// a call of apply, nothing has changed.
func (t *Tokens) Prepare() (apply func(), err error) {
	return t.file.prepare(func() (func(), error) {
		all, err := t.kind.read(t.path)
		return func() { t.replace(all) }, err
	})
}

// Reload reads the file now. After an error nothing has changed.
func (t *Tokens) Reload() error {
	apply, err := t.Prepare()
	if err == nil {
		apply()
	}
	return err
}

// Failed returns why the file was not taken when it was read last, nil if it was.
func (t *Tokens) Failed() error { return t.file.failed() }

// replace takes all that a file says, and nothing else.
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

// sameAs reports whether a line gives the same as before; a note is for people.
func (e *Entry) sameAs(o *Entry) bool {
	return e.Hash == o.Hash && e.Scope.String() == o.Scope.String() && e.Expires.Equal(o.Expires)
}

// expire ends what has expired by a clock that was set meanwhile: the timers of the
// grants do not know of that.
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

// Count returns how many tokens there are that have not expired, without issued ones.
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

// Check returns what a token allows. The error is for the log, not for the client that
// shows the token: it does not repeat it, but tells what is wrong and, if the token is
// well formed, its id.
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
	var want [sha256.Size]byte // of no token that anybody knows
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

// IssueHealth makes a token of HealthScope that is good as long as t is, and leaves it
// in the data directory, where only the server's own user reads it: HealthToken finds
// it. remove takes the file away.
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
	return func() { _ = os.Remove(path) }, nil // the next start replaces it
}

// HealthToken returns the token that a server on a data directory has left there for
// anyone who asks about its health, "" if there is none.
func HealthToken(dir string) (string, error) {
	token, err := ReadToken(filepath.Join(dir, healthFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return token, err
}

// ReadToken reads a token from a file that holds nothing else. The error names the
// file and does not repeat what is in it.
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
