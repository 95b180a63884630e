package backup

import (
	"context"
	"path/filepath"
	"slices"
	"time"
)

// What is not as it was at the original, for those who restore.

// findSince finds out from when on answers may be missing. What was answered when the
// backup began is in it, unless it was taken without a look at the journal: then only
// what the tables themselves have is known to be.
func (r *restoring) findSince(ctx context.Context) (err error) {
	r.restored.Since = r.header.Begun
	if r.header.WithoutJournal {
		r.restored.Since, err = r.loader.NewestOrder(ctx)
	}
	return err
}

// An exchange may have given out orderRateMax ids a second since a time, and is taken to
// have done so for skipTime at least, because clocks differ. That is more than it can.
const (
	orderRateMax = 1_000_000
	skipTime     = 1000 * time.Second
)

// SkipOrders returns how many order ids are left out where answers may be lost that were
// given since a time, zero if no order is known.
func SkipOrders(since time.Time) uint64 {
	skip := skipTime
	if !since.IsZero() {
		skip = max(skip, time.Since(since))
	}
	return uint64(skip.Seconds()) * orderRateMax
}

// tokens returns the file that the tokens are taken of, "" if there are none.
func (r *restoring) tokens() string {
	isTokens := func(f File) bool { return f.Name == tokensName }
	switch {
	case slices.ContainsFunc(r.newer, isTokens):
		return filepath.Join(r.o.Journal, tokensName)
	case !r.beside && slices.Contains(r.trailer.Files, tokensName):
		return r.o.File
	}
	return ""
}

// TokensOfBackup reports whether the tokens are those of the backup, and not newer ones that
// lay beside the journal. The caller that finishes a restore may name the backup in another way
// than the one that began it, so the two names are not compared.
func (r Restored) TokensOfBackup() bool {
	return r.Tokens != "" && (r.Journal == "" || r.Tokens != filepath.Join(r.Journal, tokensName))
}
