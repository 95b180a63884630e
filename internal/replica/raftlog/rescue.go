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

// ClusterFile is the file beside data/raft that says that there has to be one, ReadersFile that of
// what the other nodes read, RestoreFile that the node is to be restored from a backup of another one.
const (
	ClusterFile = "CLUSTER"
	ReadersFile = "READERS"
	RestoreFile = "RESTORE"
)

// NumberIn returns which node's a data directory is, as its file CLUSTER says; 0 if there is none, or one that an
// older program wrote. The error says why it cannot be read.
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

// Stopped is a node that does not run, and that an operator takes out of its cluster: since
// the majority is lost for good, or the cluster is given up. Nobody may start it meanwhile.
type Stopped struct {
	Dir     string // data/raft
	Node    uint64 // its number
	Journal string // directory of its journal
	Options journal.Options
}

// Outcome is what became of a stopped node.
type Outcome struct {
	Aside string // where its log of the old cluster is now
	Last  uint64 // seq of the last record that its journal has
	Taken uint64 // how many records of the log the journal did not have before
	Alone bool   // no other node was a member, so nobody has more
}

// Rescue makes the node the first and only member of a new cluster, with a new identity. Peers
// reach it at address. Its history is what its journal and its log have, and so all that
// any client was told, unless only the lost nodes had it. The old log is set aside. After
// an error, which says what could not be read, written or moved, Rescue can be called again.
func (s Stopped) Rescue(address string) (Outcome, error) {
	fresh := s.Dir + ".new"
	o, err := s.finish()
	if err != nil {
		return o, err
	}
	// What an earlier call has left is of another last record, or not complete.
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

// Leave makes the node a server alone, without a cluster, as Rescue makes it the first of one.
func (s Stopped) Leave() (Outcome, error) {
	o, err := s.finish()
	if err != nil {
		return o, err
	}
	err = s.moveClusterFile(s.Dir)
	if err == nil { // it may found a cluster again
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

// endRestore has a node that was to be restored keep what it has: its next start would discard its journal. It refuses
// one whose journal was begun anew already, which has no state before that.
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
		return fmt.Errorf("raftlog: %s says that this node is being restored from another one, so it has no state of its "+
			"own: rescue another node, or restore a backup", path)
	}
	if err := errors.Join(os.Remove(path), durable.Dir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	return nil
}

// finish brings everything that the log has to the journal, also what nobody knows to be
// committed: a node that led would commit it.
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
			return o, nil // an earlier call has come so far
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
		return o, fmt.Errorf("raftlog: what %s has behind record %d: %w", s.Dir, o.Last, err)
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

// restTicks is how long a node alone may take, at the most, to lead itself.
const restTicks = 10_000

// rest returns the records behind seq last that the log of a node has. The node leads itself for
// that, in memory: so what of the entries counts is decided as ever.
func rest(d core.Durable, node, last uint64) (records [][]byte, err error) {
	if d.Mark.Index == 0 {
		return nil, errors.New("it has never got anything from the cluster that it was to join")
	}
	d.Mark.Conf = &raftpb.ConfState{Voters: []uint64{node}}
	d.Entries = slices.Clone(d.Entries)
	for i, e := range d.Entries {
		if e.GetType() != raftpb.EntryNormal { // nobody else is a member any more
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
	return nil, fmt.Errorf("it does not lead itself after %d ticks", restTicks)
}

// setAside gives the log a name that is not in use.
func (s Stopped) setAside() (aside string, err error) {
	for n := 1; ; n++ {
		aside = fmt.Sprintf("%s.aside-%d", s.Dir, n)
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	err = os.Rename(s.Dir, aside)
	if errors.Is(err, os.ErrNotExist) { // an earlier call has come so far
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

// moveClusterFile moves the file into a directory; an empty name deletes it.
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
