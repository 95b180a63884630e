package backup

import (
	"context"
	"path/filepath"
	"slices"
	"time"
)

// What is not as it was at the original, for whoever restores.

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

// The original may have given out orderRateMax ids a second since the backup, and does
// so for skipTime at least, because clocks differ. That is more than it can.
const (
	orderRateMax = 1_000_000
	skipTime     = 1000 * time.Second
)

// skipOrders returns how many order ids are left out. With a journal too: it may be a
// copy that the original has gone on after.
func (r *restoring) skipOrders() uint64 {
	since := r.restored.Since
	if since.IsZero() {
		since = r.header.Begun // nobody ever had an order
	}
	return uint64(max(time.Since(since), skipTime).Seconds()) * orderRateMax
}

// tokens returns the file that the tokens are taken of, "" where there are none.
func (r *restoring) tokens() string {
	isTokens := func(f File) bool { return f.Name == tokensName }
	switch {
	case slices.ContainsFunc(r.newer, isTokens):
		return filepath.Join(r.o.Journal, tokensName)
	case slices.Contains(r.trailer.Files, tokensName):
		return r.o.File
	}
	return ""
}
