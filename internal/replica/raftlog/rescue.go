package raftlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/journal"
	"outcry/internal/journal/durable"
	"outcry/internal/replica/core"
)

// Files beside data/raft: ClusterFile records that data/raft must exist, ReadersFile the versions
// of records that other nodes read, and RestoreFile that the node is being restored from another
// node's backup.
const (
	ClusterFile = "CLUSTER"
	ReadersFile = "READERS"
	RestoreFile = "RESTORE"
)

// NumberIn returns the number of the node in the file CLUSTER of a data directory, or 0 if there is
// no such file or an older program wrote it. The error says why the file cannot be read.
func NumberIn(data string) (node uint64, err error) {
	text, err := os.ReadFile(filepath.Join(data, ClusterFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("raftlog: %w", err)
	}
	if _, err := fmt.Sscanf(string(text), "node %d", &node); err != nil {
		return 0, nil
	}
	return node, nil
}

// Stopped is a node that is not running and that an operator takes out of its cluster, because the
// majority is lost for good or the cluster is given up. It must not be started during the
// operation.
type Stopped struct {
	Dir     string // path of data/raft
	Node    uint64 // number of the node
	Journal string // directory of the node's journal
	Options journal.Options
}

// Outcome is the result of Rescue or Leave.
type Outcome struct {
	Aside string // where the log of the old cluster is now
	Last  uint64 // seq of the last record in the journal
	Taken uint64 // number of records that were copied from the log to the journal
	Alone bool   // no other node was a member, so no node has more records
}

// Rescue makes the node the first and only member of a new cluster, with a new identity. Peers
// reach it at address. Its history consists of its journal and its log. So it has every record
// whose result a client has received, except those that only the lost nodes had. The old log is
// moved aside. The error says what could not be read, written or moved; Rescue can then be called
// again.
func (s Stopped) Rescue(address string) (Outcome, error) {
	fresh := s.Dir + ".new"
	o, err := s.finish()
	if err != nil {
		return o, err
	}
	// The files of an earlier call are incomplete, or start after a different last record.
	if _, err := os.Stat(s.Dir); err == nil {
		if err := os.RemoveAll(fresh); err != nil {
			return o, fmt.Errorf("raftlog: %w", err)
		}
	}
	l, _, err := Open(fresh, Options{Found: &core.Mark{Index: 1, Term: 1,
		Conf:    &raftpb.ConfState{Voters: []uint64{s.Node}},
		Members: []core.Member{{ID: s.Node, Address: address}}, Position: core.Position{Seq: o.Last}}})
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		return o, err
	}
	if o.Aside, err = s.setAside(); err != nil {
		return o, err
	}
	if err = os.Rename(fresh, s.Dir); err == nil {
		err = durable.Dir(filepath.Dir(s.Dir))
	}
	if err == nil {
		err = s.moveClusterFile(o.Aside)
	}
	if err != nil {
		return o, fmt.Errorf("raftlog: %w", err)
	}
	return o, nil
}

// Leave makes the node a single server without a cluster. Its history is that of Rescue, and the
// old log is moved aside. Leave can be called again after an error.
func (s Stopped) Leave() (Outcome, error) {
	o, err := s.finish()
	if err != nil {
		return o, err
	}
	err = s.moveClusterFile(s.Dir)
	if err == nil { // delete the file READERS, so that the node may found a cluster later
		if err = os.Remove(filepath.Join(filepath.Dir(s.Dir), ReadersFile)); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return o, fmt.Errorf("raftlog: %w", err)
	}
	o.Aside, err = s.setAside()
	return o, err
}

// endRestore cancels a restore that the node was about to begin, so that its next start does not
// discard its journal. It returns an error if the new journal was started already, since such a
// node has no state from before.
func (s Stopped) endRestore() error {
	path := filepath.Join(filepath.Dir(s.Dir), RestoreFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var restore struct{ Begun bool }
	if err == nil {
		err = json.Unmarshal(text, &restore)
	}
	if err != nil {
		return fmt.Errorf("raftlog: %s: %w", path, err)
	}
	if restore.Begun {
		return fmt.Errorf("raftlog: %s says that this node is being restored from another one, so its state is "+
			"incomplete: rescue another node, or restore a backup", path)
	}
	if err := errors.Join(os.Remove(path), durable.Dir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	return nil
}

// finish copies all records of the log to the journal, including those not known to be committed.
// If this node led, it would commit them.
func (s Stopped) finish() (o Outcome, err error) {
	if err := s.endRestore(); err != nil {
		return o, err
	}
	j, err := journal.Open(s.Journal, s.Options)
	if err != nil {
		return o, fmt.Errorf("raftlog: %w", err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	o.Last = j.Appended()
	if _, err := os.Stat(s.Dir); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(s.Dir + ".new"); err == nil {
			return o, nil // an earlier call has moved the old log already
		}
	}
	l, d, err := Open(s.Dir, Options{})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	o.Alone = len(d.Mark.Members) == 1 && len(d.Mark.Conf.GetVoters()) == 1
	for _, e := range d.Entries {
		o.Alone = o.Alone && e.GetType() == raftpb.EntryNormal
	}
	records, err := rest(d, s.Node, o.Last)
	if err != nil {
		return o, fmt.Errorf("raftlog: read the records of %s after record %d: %w", s.Dir, o.Last, err)
	}
	for _, record := range records {
		if o.Last, err = j.Append(record); err != nil {
			return o, fmt.Errorf("raftlog: %w", err)
		}
		o.Taken++
	}
	if err := j.Wait(context.Background(), o.Last); err != nil {
		return o, fmt.Errorf("raftlog: %w", err)
	}
	return o, nil
}

// restTicks limits how many ticks the node may take to elect itself.
const restTicks = 10_000

// rest returns the records after seq last in a node's log. The node elects itself as the only
// voter, in memory, so package core decides as always which entries count.
func rest(d core.Durable, node, last uint64) (records [][]byte, err error) {
	if d.Mark.Index == 0 {
		return nil, errors.New("it has received nothing from the cluster that it was started to join")
	}
	d.Mark.Conf = &raftpb.ConfState{Voters: []uint64{node}}
	d.Entries = slices.Clone(d.Entries)
	for i, e := range d.Entries {
		if e.GetType() != raftpb.EntryNormal { // the other members no longer matter
			d.Entries[i] = &raftpb.Entry{Index: e.Index, Term: e.Term, Type: raftpb.EntryNormal.Enum()}
		}
	}
	n, err := core.New(core.Options{ID: node, Durable: d, Journal: last})
	if err != nil {
		return nil, err
	}
	for range restTicks {
		n.Tick()
		for {
			o := n.Output()
			if o.Broken != nil {
				return nil, o.Broken
			}
			for _, c := range o.Commits {
				records = append(records, c.Records...)
			}
			if o.Leads {
				return records, nil
			}
			if o.Index == 0 && o.Write == nil {
				break
			}
			if o.Write != nil {
				n.Written(o.Write.After)
			}
			if o.Index > 0 {
				n.Applied(o.Index)
			}
		}
	}
	return nil, fmt.Errorf("it did not elect itself within %d ticks", restTicks)
}

// setAside renames the log to an unused name.
func (s Stopped) setAside() (aside string, err error) {
	for n := 1; ; n++ {
		aside = fmt.Sprintf("%s.aside-%d", s.Dir, n)
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	err = os.Rename(s.Dir, aside)
	if errors.Is(err, os.ErrNotExist) { // an earlier call has moved the log already
		return "", nil
	}
	if err == nil {
		err = durable.Dir(filepath.Dir(s.Dir))
	}
	if err != nil {
		return "", fmt.Errorf("raftlog: set aside: %w", err)
	}
	return aside, nil
}

// moveClusterFile moves the file CLUSTER to a directory, or deletes it if to is "".
func (s Stopped) moveClusterFile(to string) error {
	path := filepath.Join(filepath.Dir(s.Dir), ClusterFile)
	var err error
	if to == "" {
		err = os.Remove(path)
	} else {
		err = os.Rename(path, filepath.Join(to, ClusterFile))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if to != "" {
		if err := durable.Dir(to); err != nil {
			return err
		}
	}
	return durable.Dir(filepath.Dir(s.Dir))
}
