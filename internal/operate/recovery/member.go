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

// OpenMemberJournal opens the journal of a node of a cluster, before its database is there:
// the node stores and votes without that. A new one begins with record 1, or o.FirstSeq.
func OpenMemberJournal(c *settings.Config, o journal.Options) (*journal.Journal, error) {
	o.FirstSeq = max(o.FirstSeq, 1)
	return journal.Open(c.JournalDir(), o)
}

// RestoreMember puts the state of a backup of another node, which must not be older than
// record after, in place of what is in the database of a node of a cluster: that follows the
// journal j from then on. It returns the record that the backup is of. The error is that of
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
			// Tables are many, and the log leaves out lines of one text that are too many.
			text := "restoring this node"
			if strings.HasPrefix(say, "filling table ") {
				text = "restoring a table of this node"
			}
			log.Info(text, "step", say)
		}})
	return h.Seq, err
}

// FollowMember has the database of a node of a cluster follow its journal, which
// OpenDatabase has allowed. The error is ctx's, or one that no further try will mend.
func FollowMember(ctx context.Context, c *settings.Config, d *Database, log *slog.Logger) error {
	return follow(ctx, d.journal, c, d, log)
}

// RefuseAlone refuses a directory that is a node's of a cluster to a server alone, and
// changes nothing: it would be a second leader. The error also says that it cannot be read.
func RefuseAlone(c *settings.Config) error {
	// Where data/raft is lost, the file CLUSTER still says that there was one.
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

// judgeMember refuses a database that does not belong beside the journal of a node of a
// cluster. A node never goes on without its records, nor with another's: it is replaced.
// The error is a *refusedError.
func judgeMember(c *settings.Config, j *journal.Journal, p postgres.Position) error {
	foreign := p.Journal != [16]byte{} && p.Journal != j.ID()
	var err error
	switch first, last := j.First(), j.Appended(); {
	case foreign:
		err = notOurs(c.JournalDir(), j.ID(), p)
	case first > p.Applied+1:
		err = fmt.Errorf("the database holds records up to %d, but the journal in %s begins at %d: "+
			"the database is older than the journal reaches back. Restore this node with outcry cluster replace",
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
