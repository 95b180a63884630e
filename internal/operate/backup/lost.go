package backup

import (
	"context"
	"path/filepath"
	"slices"
	"time"
)

// This file determines which commands a restore may have lost, compared with the original.

// findSince sets restored.Since, the time since which answered commands may be missing. A backup includes all commands
// answered before it began. If it was taken without the journal, it includes only the records in its tables; then
// Since is the time of the newest order.
func (r *restoring) findSince(ctx context.Context) (err error) {
	r.restored.Since = r.header.Begun
	if r.header.WithoutJournal {
		r.restored.Since, err = r.loader.NewestOrder(ctx)
	}
	return err
}

// For SkipOrders, the original is assumed to have issued orderRateMax ids a second, which is more than it is able to,
// and for at least skipTime, because clocks differ.
const (
	orderRateMax = 1_000_000
	skipTime     = 1000 * time.Second
)

// SkipOrders returns how many order ids a restored exchange skips, because the original may have issued them
// since the given time. The time is zero if no order is known.
func SkipOrders(since time.Time) uint64 {
	skip := skipTime
	if !since.IsZero() {
		skip = max(skip, time.Since(since))
	}
	return uint64(skip.Seconds()) * orderRateMax
}

// tokens returns the file that the tokens come from, "" if there are none.
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

// TokensOfBackup reports whether the tokens are those of the backup and not newer ones beside the journal. It does not
// compare the backup's name, because a restore may be interrupted and then finished with a different name for the same
// backup.
func (r Restored) TokensOfBackup() bool {
	return r.Tokens != "" && (r.Journal == "" || r.Tokens != filepath.Join(r.Journal, tokensName))
}
