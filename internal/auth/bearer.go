package auth

import (
	"context"
	"errors"
	"io"
	"strings"
)

// CleanToken returns a token without the white space around it. The error says that
// the text is not a token, and does not repeat it.
func CleanToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	if _, err := splitToken(token); err != nil {
		return "", err
	}
	return token, nil
}

// readUpTo fills buf as far as there is something to read.
func readUpTo(r io.Reader, buf []byte) (n int, err error) {
	n, err = io.ReadFull(r, buf)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// grantKey is the key of a grant in a context.
type grantKey struct{}

// WithGrant returns a context that carries what the bearer of a request may do.
func WithGrant(ctx context.Context, g *Grant) context.Context {
	return context.WithValue(ctx, grantKey{}, g)
}

// GrantOf returns what WithGrant put into a context, nil if nothing was.
func GrantOf(ctx context.Context) *Grant {
	g, _ := ctx.Value(grantKey{}).(*Grant)
	return g
}
