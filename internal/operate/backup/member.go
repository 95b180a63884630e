package backup

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/postgres"
)

// MemberOptions are the options of RestoreMember.
type MemberOptions struct {
	File        string // a backup of another node
	DatabaseURL string
	Journal     [16]byte // id of this node's journal, which the tables follow afterwards
	// The first record of that journal is After + 1: the backup must include record After.
	After    uint64
	Progress func(say string) // called with each step; may be nil
}

// RestoreMember replaces the content of a cluster node's database by that of a backup, in one transaction.
// Order ids continue as on the other nodes, and the node's files are not changed. The error is one of
// Restore's, or says that the backup is older than o.After. After an error nothing has changed, unless the
// commit itself failed, and RestoreMember may be called again.
func RestoreMember(ctx context.Context, o MemberOptions) (Header, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &restoring{o: RestoreOptions{File: o.File, Progress: o.Progress}, member: true}
	defer r.close()
	if err := r.checkFile(ctx); err != nil {
		return Header{}, err
	}
	if r.header.Seq < o.After {
		return Header{}, fmt.Errorf("backup: it ends at record %d, and the journal of this node begins after record %d",
			r.header.Seq, o.After)
	}
	var err error
	if r.loader, err = postgres.OpenLoader(ctx, o.DatabaseURL); err != nil {
		return Header{}, err
	}
	if err := r.loadTables(ctx); err != nil {
		return Header{}, fmt.Errorf("backup: restore %s: %w", o.File, err)
	}
	identity := postgres.Identity{Journal: o.Journal, Epoch: max(r.header.Epoch+1, uint64(time.Now().UnixMicro()))}
	if _, err := r.loader.SetIdentity(ctx, identity); err != nil {
		return Header{}, err
	}
	if _, err := r.compareTables(ctx); err != nil {
		return Header{}, err
	}
	o.Progress("committing")
	return r.header, r.loader.Commit(ctx)
}
