package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
)

// This file has the checks of a restore before it changes anything.

// checkFile reads and checks the whole backup.
func (r *restoring) checkFile(context.Context) (err error) {
	r.o.Progress("reading the whole backup")
	if r.header, r.trailer, err = CheckFile(r.o.File); err != nil {
		return err
	}
	newest := postgres.SchemaVersion()
	if r.header.Schema > newest || r.header.Schema < 1 {
		err = fmt.Errorf("backup: %s is of version %d of the schema, this program knows up to %d", r.o.File, r.header.Schema,
			newest)
	}
	for _, name := range r.trailer.Files {
		if err == nil && !slices.Contains(smallFiles, name) {
			err = fmt.Errorf("backup: %s holds a file %q, which this program does not know", r.o.File, name)
		}
	}
	return err
}

// checkJournal checks that the original's journal continues where the backup ends.
func (r *restoring) checkJournal(context.Context) (err error) {
	if r.o.Journal == "" {
		return nil
	}
	if err := r.findJournal(); err != nil {
		return err
	}
	if there, err := journal.Exists(r.from); err != nil || !there {
		return errors.Join(err, fmt.Errorf("backup: there is no journal in %s", r.from))
	}
	if r.fromLock, err = journal.LockToRead(r.from); err != nil {
		return err
	}
	s, err := journal.Inspect(r.from, exchange.EventVersion, func(uint64, []byte) error { return nil })
	switch h := r.header; {
	case err != nil:
		return err
	case s.ID != h.Journal:
		return fmt.Errorf("backup: the journal in %s is %x, the backup is of an exchange with the journal %s",
			r.from, s.ID, h.Journal)
	case s.First > h.Seq+1:
		return fmt.Errorf("backup: the backup ends at record %d, and the journal in %s begins at %d: "+
			"the records between are missing, as the server deletes segments that Postgres has; use a newer backup",
			h.Seq, r.from, s.First)
	case s.Last < h.Seq:
		return fmt.Errorf("backup: the backup ends at record %d, and the journal in %s at %d: restore without it",
			h.Seq, r.from, s.Last)
	}
	return nil
}

// findJournal finds out whether o.Journal is the folder of a journal or a data directory. If it is a data
// directory, findJournal also reads its small files.
func (r *restoring) findJournal() (err error) {
	r.from = r.o.Journal
	below := filepath.Join(r.from, "journal")
	info, err := os.Stat(below)
	isThere, mayBeThere := err == nil, !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	switch {
	case !isThere && mayBeThere:
		return fmt.Errorf("backup: %w", err)
	case !isThere || !info.IsDir():
		return nil
	}
	if r.newer, err = readSmallFiles(r.from, true); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	r.from, r.beside = below, true
	return nil
}

// checkData refuses a directory that is not empty, unless an unfinished restore has filled it.
func (r *restoring) checkData(context.Context) (err error) {
	if r.o.Data, err = filepath.Abs(r.o.Data); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	entries, err := os.ReadDir(r.o.Data)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := checkOwner(r.o.Data); err != nil {
		return err
	}
	if r.found, err = readMarker(r.o.Data); err != nil || r.found != nil {
		return err
	}
	harmless := []string{"LOCK", postgres.DirectoryFile, postgres.DirectoryFile + ".new", "lost+found", markerName +
		partialSuffix}
	for _, e := range entries {
		if !slices.Contains(harmless, e.Name()) {
			return fmt.Errorf("backup: the directory %s is not empty: it has %s; nothing was changed", r.o.Data, e.Name())
		}
	}
	return nil
}

// checkDatabase refuses a database that is not empty, unless an earlier restore into the same directory has
// filled it. A local cluster is checked once it runs.
func (r *restoring) checkDatabase(ctx context.Context) (err error) {
	if r.o.DatabaseURL == "" {
		return nil
	}
	return r.openLoader(ctx, r.o.DatabaseURL)
}

// openLoader connects to the database and checks that it is empty, or filled by the earlier restore.
func (r *restoring) openLoader(ctx context.Context, url string) (err error) {
	if r.loader, err = postgres.OpenLoader(ctx, url); err != nil {
		return err
	}
	if r.found != nil {
		epoch, err := r.loader.Epoch(ctx)
		if err != nil {
			return err
		}
		if epoch == r.found.Epoch {
			r.restored.Finished = true
			return nil
		}
	}
	return r.loader.CheckEmpty(ctx)
}

// checkOwner refuses a restore by root into another user's directory: the server that runs as that user could not read
// files that root writes.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && owner != 0 {
		return fmt.Errorf("backup: %s belongs to user %d: restore as that user, so that its server can read what is "+
			"restored; nothing was changed", dir, owner)
	}
	return nil
}
