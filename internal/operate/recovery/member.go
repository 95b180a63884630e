package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/postgres/local"
)

// OpenMemberJournal opens the journal of a cluster node. It may be called before the database is
// open, since a node stores records and votes without it. A new journal begins at record 1, or at
// o.FirstSeq if that is larger.
func OpenMemberJournal(c *settings.Config, o journal.Options) (*journal.Journal, error) {
	o.FirstSeq = max(o.FirstSeq, 1)
	return journal.Open(c.JournalDir(), o)
}

// RestoreMember replaces the database of a cluster node by the backup of another node in file. The
// backup must not be older than record after. From then on the database follows the journal j.
// RestoreMember returns the last record that the backup contains. The error is that of
// backup.RestoreMember, or says that the local cluster could not be started.
func RestoreMember(
	ctx context.Context, c *settings.Config, j *journal.Journal, after uint64, file string, log *slog.Logger,
) (seq uint64, err error) {
	url := c.DatabaseURL
	if url == "" {
		local, err := local.Start(ctx, local.Options{Dir: c.ClusterDir(), Log: log})
		if err != nil {
			return 0, err
		}
		d := Database{Cluster: local}
		defer d.Close()
		url = local.URL()
	}
	h, err := backup.RestoreMember(ctx, backup.MemberOptions{File: file, DatabaseURL: url, Journal: j.ID(), After: after,
		Progress: func(say string) {
			// The log suppresses repeated lines above a rate, so the many lines for tables have a different text.
			text := "restoring this node"
			if strings.HasPrefix(say, "filling table ") {
				text = "restoring a table of this node"
			}
			log.Info(text, "step", say)
		}})
	return h.Seq, err
}

// FollowMember registers the journal of a cluster node in its database, which OpenDatabase has
// checked. It retries while Postgres is unavailable. The error is ctx's, or one that retrying cannot
// fix.
func FollowMember(ctx context.Context, c *settings.Config, d *Database, log *slog.Logger) error {
	return follow(ctx, d.journal, c, d, log)
}

// RefuseAlone returns an error if the data directory belongs to a cluster node: a standalone server
// there would be a second leader. It also returns an error if it cannot read the directory. It changes
// nothing.
func RefuseAlone(c *settings.Config) error {
	// If data/raft is lost, the file CLUSTER still shows that the directory belongs to a node.
	_, raft := os.Lstat(c.RaftDir())
	_, note := os.Lstat(filepath.Join(c.Data, "CLUSTER"))
	for _, err := range []error{raft, note} {
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if raft != nil && note != nil {
		return nil
	}
	return fmt.Errorf("%s belongs to a node of a cluster: without --node and --peers this server would be a second "+
		"leader. Give both; if the majority of the cluster is lost for good, see outcry cluster rescue", c.Data)
}

// judgeMember returns a *refusedError if the database does not match the journal of a cluster node. A
// node never runs without its own records or with those of another journal: it must be restored.
func judgeMember(c *settings.Config, j *journal.Journal, p postgres.Position) error {
	foreign := p.Journal != [16]byte{} && p.Journal != j.ID()
	var err error
	switch first, last := j.First(), j.Appended(); {
	case foreign:
		err = foreignJournal(c.JournalDir(), j.ID(), p)
	case first > p.Applied+1:
		err = fmt.Errorf("the database holds records up to %d, but the journal in %s begins at %d: "+
			"the database is older than the journal's start. Restore this node with outcry cluster replace",
			p.Applied, c.JournalDir(), first)
	case last < p.Applied:
		err = fmt.Errorf("the database holds records up to %d, the journal in %s reaches only to %d: "+
			"this node has lost records. Restore it with outcry cluster replace", p.Applied, c.JournalDir(), last)
	}
	if err != nil {
		return &refusedError{err}
	}
	return nil
}
