package auth

import (
	"context"
	"errors"
	"io"
	"strings"
)

// CleanToken removes the white space around a token. The error says that the text is not a token, and does
// not quote it.
func CleanToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	if _, err := splitToken(token); err != nil {
		return "", err
	}
	return token, nil
}

// readUpTo reads until buf is full or r ends.
func readUpTo(r io.Reader, buf []byte) (n int, err error) {
	n, err = io.ReadFull(r, buf)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// grantKey is the key of a grant in a context.
type grantKey struct{}

// WithGrant returns a context that carries the grant of a request's sender.
func WithGrant(ctx context.Context, g *Grant) context.Context {
	return context.WithValue(ctx, grantKey{}, g)
}

// GrantOf returns the grant that WithGrant put into the context, or nil if the context has no grant.
func GrantOf(ctx context.Context) *Grant {
	g, _ := ctx.Value(grantKey{}).(*Grant)
	return g
}
