package backup

import (
	"context"
	"fmt"
	"time"

	"outcry/internal/postgres"
)

// MemberOptions say how the database of a node of a cluster is restored.
type MemberOptions struct {
	File        string // a backup of another node
	DatabaseURL string
	Journal     [16]byte // this node's, which the tables follow from now on
	// After is the record behind which that journal begins: the backup must not be older.
	After    uint64
	Progress func(say string) // is told of each step; nil means that nobody is told
}

// RestoreMember puts the state of a backup in place of what is in the database of a node of a
// cluster, all in one transaction: order ids go on as on the other nodes, and the node's
// files stay. The error is one of Restore's, says that the backup is older than o.After, or that
// its tables are of another version. Nothing has changed then, unless the commit itself failed;
// it may be called again.
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
		return Header{}, fmt.Errorf("backup: it is of record %d, and the journal of this node begins behind record %d",
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
