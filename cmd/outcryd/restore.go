package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"outcry/internal/journal"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/recovery"
	"outcry/internal/postgres"
	"outcry/internal/process/version"
	"outcry/internal/replica"
)

// restoreFile holds another node's backup while this node is restored from it.
const restoreFile = "restore.backup"

// A failed restore is retried after restoreRetryMin. Each further pause is twice as long, up to
// restoreRetryMax.
const (
	restoreRetryMin = time.Second
	restoreRetryMax = 30 * time.Second
)

// beginsAgain reports whether err means that the node's process must restart: the node has lost the
// leadership or must be restored.
func beginsAgain(err error) bool {
	_, behind := errors.AsType[*replica.BehindError](err)
	return behind || errors.Is(err, errDeposed)
}

// openJournal opens the journal. If the node must be restored, it replaces the journal with a new one.
func (m *member) openJournal(o journal.Options) (err error) {
	c := m.server.config
	if m.restore, err = replica.Unrestored(c.Data); err != nil {
		return err
	}
	if m.restore != nil {
		if err := m.restore.Discard(c.JournalDir()); err != nil {
			return err
		}
		o.FirstSeq = m.restore.Seq + 1
	}
	if m.server.journal, err = recovery.OpenMemberJournal(c, o); err != nil || m.restore == nil {
		return err
	}
	return m.restore.Began(c.Data)
}

// restoreDatabase fills the database of a node that must be restored from another node's backup. The node
// votes and stores entries during that time. It retries until ctx ends.
func (m *member) restoreDatabase(ctx context.Context) error {
	if m.restore == nil {
		return nil
	}
	s := m.server
	s.setNotReady(errors.New("restoring this node from a backup of another one"))
	for delay := restoreRetryMin; ; delay = min(2*delay, restoreRetryMax) {
		err := m.restoreOnce(ctx)
		if err == nil {
			return m.restore.Ended(s.config.Data)
		}
		if ctx.Err() != nil {
			return err
		}
		s.setNotReady(fmt.Errorf("restoring this node from a backup of another one: %w", err))
		s.log.Warn("this node is not restored yet", "error", err, "next_try_in", delay.String())
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// restoreOnce makes one attempt. It reuses a backup file that is complete and recent enough.
func (m *member) restoreOnce(ctx context.Context) error {
	s := m.server
	path := filepath.Join(s.config.Data, restoreFile)
	if h, _, err := backup.CheckFile(path); err != nil || h.Seq < m.restore.Seq {
		if err := m.download(ctx, path); err != nil {
			return err
		}
	}
	seq, err := recovery.RestoreMember(ctx, s.config, s.journal, m.restore.Seq, path, s.log)
	if err != nil {
		if postgres.Unusable(err) { // another backup may work
			err = errors.Join(err, os.Remove(path))
		}
		return err
	}
	s.log.Info("the database is restored", "seq", seq)
	// The database must not be ahead of the journal.
	if err := s.journal.Wait(ctx, seq); err != nil {
		return err
	}
	return os.Remove(path)
}

// download writes another node's backup to a file. It asks followers before the leader, which has more
// work.
func (m *member) download(ctx context.Context, path string) error {
	r, log := m.replica.Load(), m.server.log
	status, links := r.Status(), r.Links()
	var others []uint64
	for _, p := range status.Peers {
		if p.ID != status.Node && p.ID != status.Leader && links.Peers[p.ID].Connected {
			others = append(others, p.ID)
		}
	}
	if status.Leader != 0 && status.Leader != status.Node {
		others = append(others, status.Leader)
	}
	err := errors.New("no other node is connected")
	for _, peer := range others {
		log.Info("taking a backup of another node", "peer", peer)
		if err = downloadFrom(ctx, r, peer, path); err == nil {
			return nil
		}
		log.Warn("no backup of another node", "peer", peer, "error", err)
	}
	return err
}

// downloadFrom writes a peer's backup to a file.
func downloadFrom(ctx context.Context, r *replica.Replica, peer uint64, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(r.Backup(ctx, peer, f), f.Close())
}

// serveBackup writes this node's backup to w, for a peer.
func (m *member) serveBackup(ctx context.Context, w io.Writer) error {
	if !m.loaded.Load() {
		return errors.New("the state of this node is not loaded yet")
	}
	_, err := backup.Take(ctx, w, backup.TakeOptions{Data: m.server.config.Data, DatabaseURL: m.server.database.URL,
		Program: version.String()})
	return err
}
