package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
)

// TakeOptions are the options of Take.
type TakeOptions struct {
	Data string // the data directory, with the journal

	// DatabaseURL is the database.
	DatabaseURL string

	// WithoutJournal backs up what the database has, on a machine without access to the data directory. Records that were
	// answered may then be missing. Data is not used.
	WithoutJournal bool

	// WithSecrets includes the keys of the Binance-shaped door, with their secrets in plain text: anyone who
	// can read the backup can trade with them.
	WithSecrets bool

	// Wait bounds how long Take waits until the database includes all commands answered before the backup began; 0 means
	// a minute.
	Wait time.Duration

	BytesMax int64 // largest size of the backup; 0 for no limit

	Program  string           // version of this program
	Progress func(say string) // called with the progress; may be nil
}

// tokensName is the file of tokens.
const tokensName = "tokens"

// keysName is the file of keys with their secrets. It is included only with TakeOptions.WithSecrets.
const keysName = "hmac-keys"

// smallFiles are the files of the data directory that belong to a backup.
var smallFiles = []string{tokensName, keysName}

// unservedMax bounds how long a backup waits for a database that no server is connected to. A server that restarts or
// has lost its connection reconnects sooner.
var unservedMax = 15 * time.Second

// progressEvery is how often a wait or a copy reports its progress.
const progressEvery = time.Second

// Taken describes a backup that was taken.
type Taken struct {
	Header  Header
	Trailer Trailer
	Bytes   int64 // size of the file
}

// Take writes a backup to w. The error says that the journal or the database cannot be read, that they belong to
// different exchanges, that the database did not catch up with the journal in time, that its state is inconsistent, or
// that the backup would have more than o.BytesMax bytes (no more are written); or it is w's.
func Take(ctx context.Context, w io.Writer, o TakeOptions) (Taken, error) {
	if o.Wait <= 0 {
		o.Wait = time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	t := taking{o: o, begun: time.Now(), counter: counter{w: w, max: o.BytesMax}}
	archive, err := t.open(ctx)
	if err != nil {
		return Taken{}, err
	}
	defer archive.Close()
	t.archive = archive
	if err := t.write(ctx); err != nil {
		return Taken{}, fmt.Errorf("backup: %w", err)
	}
	return Taken{t.header, t.trailer, t.counter.n}, nil
}

// taking is a backup in progress.
type taking struct {
	o       TakeOptions
	begun   time.Time
	archive *postgres.Archive
	counter counter
	header  Header
	trailer Trailer
}

// open opens a snapshot of the database that includes all records now in the journal.
func (t *taking) open(ctx context.Context) (*postgres.Archive, error) {
	if t.o.WithoutJournal {
		return postgres.OpenArchiveAt(ctx, t.o.DatabaseURL, 0, nil)
	}
	id, seq, err := journal.Newest(filepath.Join(t.o.Data, "journal"), exchange.EventVersion)
	if err != nil {
		return nil, err
	}
	w := waiting{taking: t, journal: id, seq: seq, reported: t.begun, served: t.begun}
	archive, err := postgres.OpenArchiveAt(ctx, t.o.DatabaseURL, seq, w.look)
	if err != nil {
		return nil, err
	}
	if err := w.belongs(archive.Position()); err != nil {
		archive.Close()
		return nil, err
	}
	return archive, nil
}

// waiting is a wait until the tables include the records that the journal had when the backup began.
type waiting struct {
	*taking
	journal  [16]byte
	seq      uint64
	reported time.Time // when the last progress message was sent
	served   time.Time // when a server was last connected to the database
}

// belongs returns an error if the database follows another journal.
func (w *waiting) belongs(p postgres.Position) error {
	if p.Journal != w.journal {
		return fmt.Errorf("backup: the journal in %s is %x, and the database follows %x: they belong to different exchanges",
			w.o.Data, w.journal, p.Journal)
	}
	return nil
}

// look returns an error if the wait must end, nil if it may continue. served reports whether a server is connected
// to the database.
func (w *waiting) look(p postgres.Position, served bool) error {
	if err := w.belongs(p); err != nil {
		return err
	}
	now := time.Now()
	if served {
		w.served = now
	}
	behind := fmt.Sprintf("the database holds records up to %d, and the journal had %d when the backup began", p.Applied,
		w.seq)
	switch {
	case now.Sub(w.begun) > w.o.Wait:
		return fmt.Errorf("backup: after %s %s: is outcryd running, and Postgres fast enough? --wait sets how long to wait",
			w.o.Wait, behind)
	case now.Sub(w.served) > unservedMax:
		return fmt.Errorf("backup: %s, and for %s no server was connected to the database to apply more: "+
			"start outcryd, or take what the database has with --without-journal", behind, unservedMax)
	case now.Sub(w.reported) > progressEvery:
		w.reported = now
		w.o.Progress(fmt.Sprintf("waiting until the database holds record %d; it has %d", w.seq, p.Applied))
	}
	return nil
}

// write writes the whole file.
func (t *taking) write(ctx context.Context) error {
	var files []File
	if !t.o.WithoutJournal { // before the tables, so that an unreadable file is found at once
		var err error
		if files, err = readSmallFiles(t.o.Data, t.o.WithSecrets); err != nil {
			return err
		}
	}
	if err := t.describe(ctx); err != nil {
		return err
	}
	w, err := NewWriter(&t.counter, t.header)
	if err != nil {
		return err
	}
	for _, table := range postgres.Tables() {
		if err := t.dump(ctx, w, table); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := w.AddFile(f); err != nil {
			return err
		}
	}
	t.trailer, err = w.Close(time.Now().UTC())
	return err
}

// describe makes the header.
func (t *taking) describe(ctx context.Context) error {
	a := t.archive
	t.o.Progress("reading the state")
	taken := time.Now()
	state, err := a.State(ctx)
	if err != nil {
		return err
	}
	p := a.Position()
	t.header = Header{Program: t.o.Program, Postgres: a.Server(), Begun: t.begun.UTC(), Taken: taken.UTC(),
		Journal: p.Journal, Seq: p.Applied, Ack: p.Ack, Epoch: a.Epoch(), Schema: postgres.SchemaVersion(),
		Digest: state.Digest(), Listing: exchange.DigestListing(), WithoutJournal: t.o.WithoutJournal}
	return nil
}

// dump writes a table.
func (t *taking) dump(ctx context.Context, w *Writer, table Table) error {
	if err := w.BeginTable(table); err != nil {
		return err
	}
	reported := time.Now()
	t.o.Progress("copying table " + table.Name)
	rows, err := t.archive.Dump(ctx, table, writerFunc(func(p []byte) (int, error) {
		if time.Since(reported) > progressEvery {
			reported = time.Now()
			t.o.Progress(fmt.Sprintf("copying table %s: the file has %d MiB", table.Name, t.counter.n>>20))
		}
		return w.Write(p)
	}))
	if err != nil {
		return err
	}
	return w.EndTable(rows)
}

// readSmallFiles returns the small files of a data directory. It leaves out those with secrets unless secrets
// is true.
func readSmallFiles(data string, secrets bool) (files []File, err error) {
	for _, name := range smallFiles {
		if name == keysName && !secrets {
			continue
		}
		content, err := readOwn(filepath.Join(data, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Content: content})
	}
	return files, nil
}

// readOwn reads a small file that is not a link. Root may take the backup, and the directory's owner must not
// be able to choose what root reads.
func readOwn(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(content) > fileBytesMax {
		err = fmt.Errorf("%s has more than %d bytes", path, fileBytesMax)
	}
	return content, err
}

// writerFunc makes an io.Writer of a function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// counter counts the bytes that are written, and refuses a write beyond max, unless max is 0.
type counter struct {
	w   io.Writer
	max int64
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.max > 0 && int64(len(p)) > c.max-c.n {
		return 0, fmt.Errorf("it is larger than the limit of %d bytes", c.max)
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
