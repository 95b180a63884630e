package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/postgres/local"
)

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	File string // the backup
	Data string // the data directory, empty or not existing

	// DatabaseURL is the database, which must be empty. If it is "", Restore makes a local cluster in the
	// data directory.
	DatabaseURL string

	// Journal is the original's journal: its own folder, or a data directory. Its records after the backup's
	// are applied as well. "" means none. The journal is only read. If it is a data directory, the restored
	// small files are those in it and not the backup's, which are older; a small file that is missing there
	// is not restored.
	Journal string

	SegmentBytes int64            // size of the new journal's first segment; 0 for the journal's default
	Log          *slog.Logger     // log of the local cluster
	Progress     func(say string) // called with each step; may be nil
}

// Restored is the result of a restore.
type Restored struct {
	Header   Header
	Last     uint64   // the last record: the backup's, or the journal's
	Digest   [32]byte // of the state at Last
	Compared bool     // false if the backup's digest was computed by another method than this program's
	Finished bool     // an earlier, interrupted restore had done everything but remove the marker

	// Journal is the journal whose later records were applied, "" if none. If an interrupted restore was
	// finished, it is that restore's.
	Journal string

	// Tokens is the file that the tokens come from: the backup, or the one beside the journal; "" if there
	// are none.
	Tokens string

	// Since is the time since which answered commands may be missing, if no journal was given. It is zero if
	// commands of any time may be missing.
	Since time.Time

	// NextOrder is the id of the next order, above all that the original may have issued since the backup.
	NextOrder uint64
}

// Restore restores a backup. The error says that the file is damaged (a *DamageError), that the directory or
// the database is not empty (the latter a *postgres.OccupiedError), that the restored state differs from the
// backup's, or what could not be read or written. Restore writes nothing until it has checked the whole file,
// the directory and the database. After a later error or a kill, the database is unchanged unless the commit
// was reached, Unfinished reports the directory, and Restore may be called again.
func Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &restoring{o: o}
	defer r.close()
	for _, step := range []func(context.Context) error{
		r.checkFile, r.checkJournal, r.checkData, r.checkDatabase, r.claim, r.startCluster, r.load,
	} {
		if err := step(ctx); err != nil {
			return Restored{}, err
		}
	}
	return r.restored, removeMarker(o.Data)
}

// restoring is a restore in progress.
type restoring struct {
	o        RestoreOptions
	header   Header
	trailer  Trailer
	found    *marker // the marker of an interrupted restore; nil if there was none
	marker   marker  // the marker of this restore
	from     string  // the folder of the journal to continue with, "" for none
	beside   bool    // the journal is in a data directory, whose small files are restored
	member   bool    // only the database of a cluster node is restored
	newer    []File  // the small files beside the journal
	fromLock *journal.DirLock
	lock     *journal.DirLock
	cluster  *local.Cluster
	loader   *postgres.Loader
	position postgres.Position // of the restored tables
	restored Restored
}

// close releases what the restore holds.
func (r *restoring) close() {
	if r.loader != nil {
		r.loader.Close()
	}
	if r.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
		defer cancel()
		_ = r.cluster.Stop(ctx) // the cluster ends with this process in any case
	}
	for _, lock := range []*journal.DirLock{r.lock, r.fromLock} {
		if lock != nil {
			_ = lock.Unlock() // the lock file is empty and may stay
		}
	}
}

// clusterStopTimeout bounds how long the local cluster may take to stop.
const clusterStopTimeout = 30 * time.Second

// claim locks the directory and writes the marker into it.
func (r *restoring) claim(ctx context.Context) (err error) {
	if r.lock, err = journal.Lock(r.o.Data); err != nil {
		return err
	}
	if err := r.checkData(ctx); err != nil { // check again, now that no other process may change it
		return err
	}
	h := r.header
	// No server has had this epoch: servers raise theirs by one at each start, and an earlier restore chose its
	// epoch in an earlier microsecond.
	r.marker = marker{Backup: r.o.File, Seq: h.Seq, Digest: h.Digest,
		Epoch: max(h.Epoch+1, uint64(time.Now().UnixMicro()))}
	r.marker.Journal, r.marker.Tokens = r.o.Journal, r.tokens()
	if r.found == nil {
		return r.marker.write(r.o.Data)
	}
	if r.found.Epoch > h.Epoch {
		r.marker.Epoch = r.found.Epoch // the epoch that identifies a database filled by that restore
	}
	return nil // the old marker stays until it is known that its restore did not commit
}

// clear removes the journal and small files of an interrupted restore.
func (r *restoring) clear() error {
	for _, name := range append([]string{"journal"}, smallFiles...) {
		if err := os.RemoveAll(filepath.Join(r.o.Data, name)); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return nil
}

// startCluster makes the local cluster, if no database is given.
func (r *restoring) startCluster(ctx context.Context) (err error) {
	if r.o.DatabaseURL != "" {
		return nil
	}
	r.o.Progress("starting the local Postgres cluster")
	r.cluster, err = local.Start(ctx, local.Options{Dir: filepath.Join(r.o.Data, "postgres"), Log: r.o.Log})
	if err != nil {
		return err
	}
	return r.openLoader(ctx, r.cluster.URL())
}

// load makes the journal, fills the tables, compares them with the backup, and commits.
func (r *restoring) load(ctx context.Context) error {
	if r.restored.Finished {
		return r.finish(ctx)
	}
	if r.found != nil {
		if err := errors.Join(r.marker.write(r.o.Data), r.clear()); err != nil {
			return err
		}
	}
	r.restored.Journal, r.restored.Tokens = r.marker.Journal, r.marker.Tokens
	id, err := r.makeJournal()
	if err != nil {
		return err
	}
	if err := r.loadTables(ctx); err != nil {
		return fmt.Errorf("backup: restore %s: %w", r.o.File, err)
	}
	for _, f := range r.newer {
		if err := writeFile(filepath.Join(r.o.Data, f.Name), f.Content); err != nil {
			return err
		}
	}
	if err := r.findSince(ctx); err != nil {
		return err
	}
	// Ids are skipped with a journal too: it may be a copy, after which the original has continued.
	identity := postgres.Identity{Journal: id, Epoch: r.marker.Epoch, SkipOrders: SkipOrders(r.restored.Since)}
	if _, err := r.loader.SetIdentity(ctx, identity); err != nil {
		return err
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	r.o.Progress("committing")
	if err := r.loader.Commit(ctx); err != nil {
		return err
	}
	r.o.Progress("committed")
	return nil
}

// finish checks that an interrupted restore had done everything. The options of that restore count, not those
// of this one.
func (r *restoring) finish(ctx context.Context) error {
	if r.o.Journal != "" && r.found.Journal == "" {
		return fmt.Errorf("backup: a restore into %s has filled the database, without a journal: to have the records of %s "+
			"as well, "+
			"begin again with an empty directory and an empty database; or run it without --journal, which finishes it",
			r.o.Data, r.o.Journal)
	}
	r.restored.Journal, r.restored.Tokens = r.found.Journal, r.found.Tokens
	if err := r.findSince(ctx); err != nil {
		return err
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	id, _, err := journal.Newest(filepath.Join(r.o.Data, "journal"), exchange.EventVersion)
	if err == nil && id != r.position.Journal {
		err = fmt.Errorf("backup: the database was restored with the journal %x, and that in %s is %x", r.position.Journal,
			r.o.Data, id)
	}
	return err
}

// makeJournal makes the journal that continues after the backup's record: a new one, or a copy of the
// original's with a new id.
func (r *restoring) makeJournal() (id [16]byte, err error) {
	dir := filepath.Join(r.o.Data, "journal")
	if r.from != "" {
		r.o.Progress("copying the journal")
		_, _ = rand.Read(id[:]) // never fails
		return id, journal.Copy(r.from, dir, id)
	}
	j, err := journal.Open(dir,
		journal.Options{Version: exchange.EventVersion, FirstSeq: r.header.Seq + 1, SegmentBytes: r.o.SegmentBytes})
	if err != nil {
		return id, err
	}
	return j.ID(), j.Close()
}

// loadTables makes the schema of the backup's version, fills it, upgrades it, and analyzes the tables, so
// that the queries that compare the state are planned with their real sizes.
func (r *restoring) loadTables(ctx context.Context) error {
	f, err := os.Open(r.o.File)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := NewReader(f)
	if err != nil {
		return err
	}
	if b.Header() != r.header {
		return errors.New("the file has changed since it was checked")
	}
	makeTables := r.loader.MakeSchema
	if r.member {
		makeTables = r.loader.Replace
	}
	if err := makeTables(ctx, r.header.Schema); err != nil {
		return err
	}
	var tables []Table
	for {
		section, err := b.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && section.Table != nil {
			tables = append(tables, *section.Table)
			err = r.loadTable(ctx, b, *section.Table)
		} else if err == nil {
			err = r.loadFile(section.File)
		}
		if err != nil {
			return err
		}
	}
	if err := r.loader.CheckTables(ctx, tables); err != nil {
		return err
	}
	if err := r.loader.Upgrade(ctx, r.header.Schema); err != nil {
		return err
	}
	return r.loader.Analyze(ctx)
}

// loadFile restores a small file of the backup, unless the small files beside the journal are used instead, in which
// it is newer, or was deleted.
func (r *restoring) loadFile(f *File) error {
	if !slices.Contains(r.trailer.Files, f.Name) {
		return errors.New("the file has changed since it was checked")
	}
	if r.beside || r.member {
		return nil
	}
	return writeFile(filepath.Join(r.o.Data, f.Name), f.Content)
}

// loadTable fills a table.
func (r *restoring) loadTable(ctx context.Context, b *Reader, t Table) error {
	r.o.Progress("filling table " + t.Name)
	reported, bytes := time.Now(), int64(0)
	rows, err := r.loader.Load(ctx, t, readerFunc(func(p []byte) (int, error) {
		n, err := b.Read(p)
		if bytes += int64(n); time.Since(reported) > progressEvery {
			reported = time.Now()
			r.o.Progress(fmt.Sprintf("filling table %s: %d MiB", t.Name, bytes>>20))
		}
		return n, err
	}))
	if err != nil {
		return err
	}
	if rows != b.Rows() {
		return fmt.Errorf("table %s got %d rows, the backup has %d", t.Name, rows, b.Rows())
	}
	return nil
}

// readerFunc makes an io.Reader of a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// compare checks that the tables hold the state of the backup, and that the journal's later records can be
// applied to it.
func (r *restoring) compare(ctx context.Context) error {
	state, err := r.compareTables(ctx)
	if err != nil {
		return err
	}
	h := r.header
	dir := filepath.Join(r.o.Data, "journal")
	r.restored.Last = h.Seq
	var e exchange.Event
	_, err = journal.Inspect(dir, exchange.EventVersion, func(seq uint64, record []byte) error {
		if seq <= h.Seq {
			return nil
		}
		if err := exchange.DecodeEvent(record, &e); err != nil {
			return fmt.Errorf("journal record %d: %w", seq, err)
		}
		if err := state.Apply(&e); err != nil {
			return fmt.Errorf("journal record %d does not replay as recorded: %w", seq, err)
		}
		state.ForgetClosed(&e)
		r.restored.Last = seq
		return nil
	})
	if err == nil && r.restored.Last > h.Seq {
		err = state.Audit()
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	r.restored.Digest = state.Digest()
	r.restored.NextOrder = max(uint64(state.OrderID), r.position.OrdersAfter) + 1
	return nil
}

// compareTables checks that the tables hold the state of the backup, and returns that state.
func (r *restoring) compareTables(ctx context.Context) (*exchange.State, error) {
	r.o.Progress("comparing the state")
	state, p, err := r.loader.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("backup: the restored state does not add up: %w", err)
	}
	r.position = p
	h := r.header
	r.restored.Header, r.restored.Compared = h, h.Listing == exchange.DigestListing()
	if p.Applied != h.Seq {
		return nil, fmt.Errorf("backup: the restored tables are of record %d, the backup of record %d", p.Applied, h.Seq)
	}
	if digest := hexDigest(state.Digest()); r.restored.Compared && digest != h.Digest {
		return nil, fmt.Errorf("backup: the restored state has the digest %s, the backup %s", digest, h.Digest)
	}
	if _, err := r.loader.CheckRefs(ctx); err != nil { // the digest does not cover the refs
		return nil, fmt.Errorf("backup: the restored refs do not add up: %w", err)
	}
	return state, nil
}
