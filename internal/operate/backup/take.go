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

// TakeOptions say what a backup is taken of.
type TakeOptions struct {
	Data string // the data directory, with the journal

	// DatabaseURL names the database.
	DatabaseURL string

	// WithoutJournal takes what the database has, for a machine that does not see the
	// data directory: some records that were answered may be missing. Data is not used.
	WithoutJournal bool

	// WithSecrets takes the keys of the Binance-shaped door too, with their secrets as they are: who reads the backup can
	// trade with them.
	WithSecrets bool

	// Wait bounds how long the database may take to include what was answered when the
	// backup began; 0 means a minute.
	Wait time.Duration

	BytesMax int64 // that the backup may have; 0 means any number

	Program  string           // version of this program
	Progress func(say string) // is told how it goes; nil means that nobody is told
}

// tokensName is the file that says who may do what.
const tokensName = "tokens"

// keysName is the file of keys whose secrets the server knows: it is taken only with TakeOptions.WithSecrets.
const keysName = "hmac-keys"

// smallFiles are files of the data directory that belong to the exchange.
var smallFiles = []string{tokensName, keysName}

// unservedMax is for how long a backup waits for tables that no server brings further. One
// that restarts, or has lost its connection, has the database again sooner.
var unservedMax = 15 * time.Second

// progressEvery is how often a wait and a copy tell how it goes.
const progressEvery = time.Second

// Taken is what a backup has come to.
type Taken struct {
	Header  Header
	Trailer Trailer
	Bytes   int64 // of the file
}

// Take writes a backup to w. The error says that the journal or the database cannot be
// read, that they are not of one exchange, that the database did not come up to the
// journal in time, that its state does not add up, that the backup has more than
// o.BytesMax bytes, of which no more were written, or is that of w.
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

// taking is a backup that is being taken.
type taking struct {
	o       TakeOptions
	begun   time.Time
	archive *postgres.Archive
	counter counter
	header  Header
	trailer Trailer
}

// open returns the database as it is once it includes all that was answered by now.
func (t *taking) open(ctx context.Context) (*postgres.Archive, error) {
	if t.o.WithoutJournal {
		return postgres.OpenArchiveAt(ctx, t.o.DatabaseURL, 0, nil)
	}
	id, seq, err := journal.Newest(filepath.Join(t.o.Data, "journal"), exchange.EventVersion)
	if err != nil {
		return nil, err
	}
	w := waiting{taking: t, journal: id, seq: seq, told: t.begun, served: t.begun}
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

// waiting is a wait until the tables hold what the journal held when the backup began.
type waiting struct {
	*taking
	journal [16]byte
	seq     uint64
	told    time.Time // when it was said last that it waits
	served  time.Time // when a server had the database last
}

// belongs returns an error if the database follows another journal.
func (w *waiting) belongs(p postgres.Position) error {
	if p.Journal != w.journal {
		return fmt.Errorf("backup: the journal in %s is %x, and the database follows %x: they are not of the same exchange",
			w.o.Data, w.journal, p.Journal)
	}
	return nil
}

// look returns why to wait no longer, nil to go on.
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
		return fmt.Errorf("backup: after %s %s: is outcryd running, and Postgres up to it? --wait lets it wait for longer",
			w.o.Wait, behind)
	case now.Sub(w.served) > unservedMax:
		return fmt.Errorf("backup: %s, and for %s no server had the database that could bring it further: "+
			"start outcryd, or take what the database has with --without-journal", behind, unservedMax)
	case now.Sub(w.told) > progressEvery:
		w.told = now
		w.o.Progress(fmt.Sprintf("waiting until the database holds record %d; it has %d", w.seq, p.Applied))
	}
	return nil
}

// write writes the whole file.
func (t *taking) write(ctx context.Context) error {
	var files []File
	if !t.o.WithoutJournal { // before the tables: one that cannot be read is found at once
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
	told := time.Now()
	t.o.Progress("copying table " + table.Name)
	rows, err := t.archive.Dump(ctx, table, writerFunc(func(p []byte) (int, error) {
		if time.Since(told) > progressEvery {
			told = time.Now()
			t.o.Progress(fmt.Sprintf("copying table %s: the file has %d MiB", table.Name, t.counter.n>>20))
		}
		return w.Write(p)
	}))
	if err != nil {
		return err
	}
	return w.EndTable(rows)
}

// readSmallFiles returns the small files that a data directory has, without those that hold secrets unless they are
// wanted.
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

// readOwn reads a small file that is no link: root may take the backup, and whose
// directory it is must not choose what root reads.
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

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// counter counts what is written, and writes no more than max bytes, unless that is 0.
type counter struct {
	w   io.Writer
	max int64
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.max > 0 && int64(len(p)) > c.max-c.n {
		return 0, fmt.Errorf("it is larger than the %d bytes that it may have", c.max)
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
