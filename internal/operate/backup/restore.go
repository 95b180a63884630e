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

// RestoreOptions say what is restored and where to.
type RestoreOptions struct {
	File string // the backup
	Data string // the data directory, empty or not there

	// DatabaseURL names the database, which has to be empty; "" makes a local cluster
	// below the data directory.
	DatabaseURL string

	// Journal is the original's journal, in its own folder or in a data directory, whose
	// records after the backup's are to be done as well; "" means none. It is only read. The
	// small files of a data directory are taken instead of the backup's, which are older;
	// one that is not there is not restored either.
	Journal string

	SegmentBytes int64            // size of the new journal's first segment; 0 means the journal's default
	Log          *slog.Logger     // of the local cluster
	Progress     func(say string) // is told of each step; nil means that nobody is told
}

// Restored is what a restore has come to.
type Restored struct {
	Header   Header
	Last     uint64   // the last record: the backup's, or the journal's
	Digest   [32]byte // of the state at Last
	Compared bool     // false if the digest in the backup is of another listing than this program's
	Finished bool     // a restore that was cut off had done everything but say so

	// Journal is the directory of the journal whose later records are done as well, ""
	// if there is none. A restore that was cut off may have had it.
	Journal string

	// Tokens is the file that the tokens are of: the backup, or the one beside the journal;
	// "" if there are none.
	Tokens string

	// Since is when the first of what is lost without a journal may have been answered. It
	// is zero if that may have been at any time.
	Since time.Time

	// NextOrder is the id of the next order: above all that the original may have given
	// out since the backup.
	NextOrder uint64
}

// Restore restores a backup. The error says that the file is damaged (a *DamageError),
// that directory or database are not empty (a *postgres.OccupiedError), that what was
// restored does not come out as the backup says, or what could not be read or written.
// Before the first byte is written the whole file has been checked, and a directory or
// database that is not empty is refused. After a later error, or a kill, the database
// is as before, unless the very last step was reached, and the directory holds what
// Unfinished tells of; Restore then may be called again.
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

// restoring is a restore at work.
type restoring struct {
	o        RestoreOptions
	header   Header
	trailer  Trailer
	found    *marker // of a restore that was cut off; nil if there was none
	marker   marker  // ours
	from     string  // the journal to go on with, "" for none
	beside   bool    // it lies in a data directory, whose small files count
	member   bool    // only the database of a node of a cluster is restored
	newer    []File  // that lie beside it
	fromLock *journal.DirLock
	lock     *journal.DirLock
	cluster  *local.Cluster
	loader   *postgres.Loader
	position postgres.Position // of the restored tables
	restored Restored
}

// close gives back what the restore holds.
func (r *restoring) close() {
	if r.loader != nil {
		r.loader.Close()
	}
	if r.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), clusterStopTimeout)
		defer cancel()
		_ = r.cluster.Stop(ctx) // it ends with this process in any case
	}
	for _, lock := range []*journal.DirLock{r.lock, r.fromLock} {
		if lock != nil {
			_ = lock.Unlock() // the file is empty
		}
	}
}

// clusterStopTimeout bounds how long the local cluster may take to stop.
const clusterStopTimeout = 30 * time.Second

// claim locks the directory and says in it that a restore is at work.
func (r *restoring) claim(ctx context.Context) (err error) {
	if r.lock, err = journal.Lock(r.o.Data); err != nil {
		return err
	}
	if err := r.checkData(ctx); err != nil { // again, now that nobody else may change it
		return err
	}
	h := r.header
	// One that never was a server's, since epochs rise by one with each start: neither
	// the original's nor that of a former restore, which was of an earlier microsecond.
	r.marker = marker{Backup: r.o.File, Seq: h.Seq, Digest: h.Digest,
		Epoch: max(h.Epoch+1, uint64(time.Now().UnixMicro()))}
	r.marker.Journal, r.marker.Tokens = r.o.Journal, r.tokens()
	if r.found == nil {
		return r.marker.write(r.o.Data)
	}
	if r.found.Epoch > h.Epoch {
		r.marker.Epoch = r.found.Epoch // by which a database is known that it has filled
	}
	return nil // what is found is true until it is known not to have been committed
}

// clear removes what a restore that was cut off has left of journal and small files.
func (r *restoring) clear() error {
	for _, name := range append([]string{"journal"}, smallFiles...) {
		if err := os.RemoveAll(filepath.Join(r.o.Data, name)); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return nil
}

// startCluster makes the local cluster, if no database is named.
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

// load does everything that has to be whole: the journal, then the tables, which are
// compared with the backup, then the commit.
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
	// Ids are left out with a journal too: it may be a copy that the original has gone on after.
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

// finish proves that a restore that was cut off had done everything. What it was told
// counts, not what this one is.
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

// makeJournal makes the journal that goes on after the backup's record: a new one, or
// a copy of the original's.
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

// loadTables makes the schema of the backup, fills it, and brings it up to date. The state can
// be compared then without guesses of how large the tables are.
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

// loadFile restores a small file of the backup, unless the one beside the journal counts:
// that is newer, or gone.
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
	told, bytes := time.Now(), int64(0)
	rows, err := r.loader.Load(ctx, t, readerFunc(func(p []byte) (int, error) {
		n, err := b.Read(p)
		if bytes += int64(n); time.Since(told) > progressEvery {
			told = time.Now()
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

// readerFunc is a function as an io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// compare proves that the tables hold the state that the backup was taken of, and that
// the journal's later records can be done on top of it.
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
			return fmt.Errorf("journal record %d does not come out as recorded: %w", seq, err)
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

// compareTables proves that the tables hold the state that the backup was taken of, and
// returns it.
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
	if _, err := r.loader.CheckRefs(ctx); err != nil { // which the digest leaves out
		return nil, fmt.Errorf("backup: the restored refs do not add up: %w", err)
	}
	return state, nil
}
