package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/remote"
)

const clusterStatusText = `Asks every address of --http. Nodes that one of them knows, but that were not asked, are
listed as well. A node is outside if --peers names it but the cluster does not include it, and silent if
it has not answered the leader lately. The exit status is 1 if no node leads, if a voting node is
silent, or if the digests of two nodes differ at the same record: then one of them is wrong.`

const clusterAddText = `Start the node first, with --join, the list of all nodes as --peers, and a directory that
contains nothing but another node's tokens and hmac-keys. The node receives records until it has
nearly all, and then becomes a voter; outcry waits for that. Ctrl-C ends only the waiting, and the
same command continues it.`

const clusterReplaceText = `The node's old directory never votes again. Start the node with --join and a directory that
contains nothing but another node's tokens and hmac-keys. It receives records until it has nearly
all, and then becomes a voter; outcry waits for that. Ctrl-C ends only the waiting, and
outcry cluster add continues it.`

// Intervals and bounds for cluster changes.
const (
	sayEvery     = 5 * time.Second        // shortest time between two lines about a learner's missing records
	changePoll   = 200 * time.Millisecond // pause between two polls of a change's progress
	transferWait = 15 * time.Second       // how long transfer waits for a new leader
)

// silentMax is how long a new node may be inactive before the wait for it fails. It is a variable so that
// tests can shorten it.
var silentMax = 2 * time.Minute

// clusterAnswer is the JSON output of cluster status.
type clusterAnswer struct {
	Nodes     []nodeAnswer `json:"nodes"`
	Leader    uint64       `json:"leader"` // 0 if no node reports that it leads
	Different []string     `json:"different,omitempty"`
}

// nodeAnswer is a node that was asked, or a node that is known only from another node's answer.
type nodeAnswer struct {
	Address string          `json:"address"` // HOST:PORT of its HTTP side
	Error   string          `json:"error,omitempty"`
	View    *remote.Cluster `json:"view,omitempty"`
	Known   *remote.Member  `json:"known,omitempty"` // as seen by the best-informed node

	unauthorized bool // the node refused the token, or got none
	silent       bool // a member that, according to the leader, has not answered lately
}

// clusterStatus prints the nodes. It returns cli.ErrAnswered if none leads, or if digests differ.
func (o *operator) clusterStatus([]string) error {
	views := remote.Views(o.ctx, o.all)
	if len(views) == 1 && views[0].Err != nil {
		var refused *remote.Error
		if errors.As(views[0].Err, &refused) && refused.Status == http.StatusNotFound {
			return fmt.Errorf("%s is not a node of a cluster", views[0].Address)
		}
		return views[0].Err
	}
	a := answerOf(views)
	if err := o.print(a, func() { o.printCluster(&a) }); err != nil {
		return err
	}
	silent := slices.ContainsFunc(a.Nodes, func(n nodeAnswer) bool { return n.silent && !n.Known.Learner })
	if a.Leader == 0 || len(a.Different) > 0 || silent {
		return cli.ErrAnswered
	}
	return nil
}

// answerOf combines the views of the nodes into one answer.
func answerOf(views []remote.NodeView) (a clusterAnswer) {
	var best *remote.Cluster // the view of the newest term; within it, the leader's
	for i := range views {
		v := &views[i]
		n := nodeAnswer{Address: v.Address}
		if v.Err != nil {
			n.Error = v.Err.Error()
			refused, answered := v.Err.(*remote.Error)
			n.unauthorized = answered && refused.Status == http.StatusUnauthorized
		} else {
			n.View = &v.Cluster
			leads := v.Cluster.Role == remote.RoleLeader
			if best == nil || v.Cluster.Term > best.Term || v.Cluster.Term == best.Term && leads {
				best = &v.Cluster
			}
			if leads {
				a.Leader = v.Cluster.Node
			}
		}
		a.Nodes = append(a.Nodes, n)
	}
	a.Different = differences(views)
	if best == nil {
		return a
	}
	for i := range best.Members {
		m := &best.Members[i]
		at := slices.IndexFunc(a.Nodes, func(n nodeAnswer) bool {
			return n.View != nil && n.View.Node == m.Node || n.View == nil && n.Address == m.HTTP
		})
		if at < 0 {
			a.Nodes = append(a.Nodes, nodeAnswer{Address: m.HTTP, Error: "not asked"})
			at = len(a.Nodes) - 1
		}
		a.Nodes[at].Known = m
		a.Nodes[at].silent = best.Role == remote.RoleLeader && m.Node != best.Node && !m.Outside && !m.Active
	}
	slices.SortStableFunc(a.Nodes, func(x, y nodeAnswer) int { return int(x.number()) - int(y.number()) })
	return a
}

// number returns the node's number, or 0 if it is unknown.
func (n *nodeAnswer) number() uint64 {
	switch {
	case n.View != nil:
		return n.View.Node
	case n.Known != nil:
		return n.Known.Node
	}
	return 0
}

// differences describes each inconsistency among the views: two digests of one record, two leaders in one
// term, or nodes of two clusters.
func differences(views []remote.NodeView) (texts []string) {
	for i := range views {
		for j := range i {
			x, y := &views[j].Cluster, &views[i].Cluster
			if views[i].Err != nil || views[j].Err != nil {
				continue
			}
			if x.DigestSeq == y.DigestSeq && x.Digest != "" && y.Digest != "" && x.Digest != y.Digest {
				texts = append(texts, fmt.Sprintf("nodes %d and %d have different digests at record %d", x.Node, y.Node,
					x.DigestSeq))
			}
			if x.Role == remote.RoleLeader && y.Role == x.Role && x.Term == y.Term {
				texts = append(texts, fmt.Sprintf("nodes %d and %d both lead in term %d", x.Node, y.Node, x.Term))
			}
			if x.Cluster != y.Cluster && x.Cluster != "" && y.Cluster != "" {
				texts = append(texts, fmt.Sprintf("nodes %d and %d belong to different clusters", x.Node, y.Node))
			}
		}
	}
	return texts
}

// printCluster prints the nodes as a table, and the problems after it.
func (o *operator) printCluster(a *clusterAnswer) {
	w := tabwriter.NewWriter(o.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "node\trole\tterm\trecord\tlag\tdigest\tHTTP\t")
	for i := range a.Nodes {
		fmt.Fprintln(w, strings.Join(a.Nodes[i].row(), "\t"))
	}
	w.Flush()
	for _, text := range a.Different {
		fmt.Fprintf(o.stdout, "WRONG: %s\n", text)
	}
	switch {
	case slices.ContainsFunc(a.Nodes, func(n nodeAnswer) bool { return n.View != nil }):
		if a.Leader == 0 {
			fmt.Fprintln(o.stdout, "NO LEADER among the nodes that were asked")
		}
	case slices.ContainsFunc(a.Nodes, func(n nodeAnswer) bool { return n.unauthorized }):
		fmt.Fprintln(o.stdout, "NO NODE could be asked: give a token, with --token-file or OUTCRY_TOKEN")
	default:
		fmt.Fprintln(o.stdout, "NO NODE could be asked")
	}
}

// digestShown is how many leading digits of a digest are printed.
const digestShown = 12

// row returns the cells of the node's line in the table.
func (n *nodeAnswer) row() []string {
	number, lag := "?", ""
	if n.number() != 0 {
		number = strconv.FormatUint(n.number(), 10)
	}
	note := n.Error
	if k := n.Known; k != nil {
		if n.View == nil || n.View.Role != remote.RoleLeader {
			lag = fmt.Sprintf("%d entries", k.LagEntries)
		}
		if len(k.Differs) > 0 {
			note = strings.TrimPrefix(note+"; other "+strings.Join(k.Differs, ", ")+" than the leader's", "; ")
		}
	}
	v, role := n.View, "?"
	switch {
	case n.Known != nil && n.Known.Outside: // no longer a member, which the node itself may not know
		role, lag = "outside", ""
	case n.silent:
		role = "silent"
	case v != nil:
		role = v.Role
	case n.Known != nil && n.Known.Learner:
		role = remote.RoleLearner
	}
	if v == nil {
		return []string{number, role, "", "", lag, "", n.Address, note}
	}
	if v.Role == remote.RoleStarting && v.Why != v.Role {
		note = strings.TrimPrefix(note+"; "+v.Why, "; ")
	}
	digest := ""
	if v.Digest != "" {
		digest = fmt.Sprintf("%.*s at %d", digestShown, v.Digest, v.DigestSeq)
	}
	return []string{number, role, strconv.FormatUint(v.Term, 10), strconv.FormatUint(v.Seq, 10), lag, digest,
		n.Address, note}
}

// nodeNumber parses the number of a node.
func nodeNumber(word string) (uint64, error) {
	n, err := strconv.ParseUint(word, 10, 32)
	if err != nil || n == 0 {
		return 0, cli.Usage(fmt.Sprintf("%.64q is not a node number", word))
	}
	return n, nil
}

// transfer hands over the leadership, and waits until another node leads.
func (o *operator) transfer(words []string) (err error) {
	var to uint64
	if len(words) > 0 {
		if to, err = nodeNumber(words[0]); err != nil {
			return err
		}
	}
	before, err := o.client.Cluster(o.ctx)
	if err != nil {
		return err
	}
	if before.Node == to {
		return o.print(remote.ClusterChanged{Change: remote.ChangeTransfer, ClusterChange: remote.ClusterChange{Node: to}},
			func() { fmt.Fprintf(o.stdout, "node %d leads already\n", to) })
	}
	a, err := o.client.Change(o.ctx, remote.ChangeTransfer, remote.ClusterChange{Node: to})
	if err != nil && errors.As(err, new(*remote.Error)) {
		return err // any other error may be due to the handover, which can cut the reply off
	}
	for deadline := time.Now().Add(transferWait); time.Now().Before(deadline); {
		for _, v := range remote.Views(o.ctx, o.all) {
			if v.Err == nil && v.Cluster.Leader != 0 && v.Cluster.Leader != before.Node && v.Cluster.Term > before.Term {
				a.Change, a.Node = remote.ChangeTransfer, v.Cluster.Leader
				return o.print(a, func() { fmt.Fprintf(o.stdout, "node %d leads now, in term %d\n", a.Node, v.Cluster.Term) })
			}
		}
		if err := o.pause(); err != nil {
			return err
		}
	}
	return fmt.Errorf("no other node has become leader within %s; outcry cluster status shows the nodes", transferWait)
}

// pause waits for changePoll. It returns the context's error if the context ends first.
func (o *operator) pause() error {
	select {
	case <-time.After(changePoll):
		return nil
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}

func (o *operator) addNode(words []string) error { return o.addMember(remote.ChangeAdd, words) }

func (o *operator) replaceNode(words []string) error { return o.addMember(remote.ChangeReplace, words) }

// addMember adds or replaces a node, unless it is a learner already, and waits until it votes.
func (o *operator) addMember(change string, words []string) error {
	what, err := changeOf(words)
	if err != nil {
		return err
	}
	v, err := o.client.Cluster(o.ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(v.Members, func(m remote.Member) bool { return m.Node == what.Node })
	if change == remote.ChangeReplace || at < 0 || !v.Members[at].Learner {
		if _, err := o.client.Change(o.ctx, change, what); err != nil {
			return err
		}
	}
	if !o.json {
		fmt.Fprintf(o.stdout, "node %d is a learner; waiting until it has nearly all records\n", what.Node)
	}
	waits := waiting{node: what.Node, heard: time.Now()}
	for {
		a, err := o.client.Change(o.ctx, remote.ChangePromote, remote.ClusterChange{Node: what.Node})
		var refused *remote.Error
		switch {
		case err == nil:
			return o.print(a, func() { fmt.Fprintf(o.stdout, "node %d votes\n", what.Node) })
		case !errors.As(err, &refused):
			return err
		case refused.Status == http.StatusServiceUnavailable: // the leader has changed
			if err := o.leader(); err != nil {
				return err
			}
		case refused.Status != http.StatusConflict:
			return err
		}
		if err := waits.look(o, refused); err != nil {
			return err
		}
		if err := o.pause(); err != nil {
			return fmt.Errorf("%w; node %d continues to learn: %w", err, what.Node, refused)
		}
	}
}

// waiting is the state of a wait for a learner.
type waiting struct {
	node        uint64
	heard, said time.Time // when the node was last active, and when text was printed
	text        string    // the reason, printed last, why the node does not vote yet
}

// look prints why the node does not vote yet, if the reason has changed. It returns an error once the node has been
// inactive for silentMax, since it may never start.
func (w *waiting) look(o *operator, why *remote.Error) error {
	now := time.Now()
	v, err := o.client.Cluster(o.ctx)
	answers := err != nil || slices.ContainsFunc(v.Members, func(m remote.Member) bool {
		return m.Node == w.node && m.Active
	})
	switch {
	case answers:
		w.heard = now
	case now.Sub(w.heard) >= silentMax:
		return fmt.Errorf("node %d has not answered for %s: check that it runs, with --join and an empty directory, and "+
			"what it logs; repeat the command to continue: %v", w.node, silentMax, why)
	}
	if text := why.Error(); !o.json && text != w.text && now.Sub(w.said) >= sayEvery {
		w.text, w.said = text, now
		fmt.Fprintf(o.stdout, "waiting: %s\n", text)
	}
	return nil
}

// changeOf parses the number of a node and, if given, its address.
func changeOf(words []string) (c remote.ClusterChange, err error) {
	if c.Node, err = nodeNumber(words[0]); err == nil && len(words) > 1 {
		c.Address = words[1]
	}
	return c, err
}

func (o *operator) removeNode(words []string) error {
	what, err := changeOf(words)
	if err != nil {
		return err
	}
	a, err := o.client.Change(o.ctx, remote.ChangeRemove, what)
	if err != nil {
		return err
	}
	return o.print(a, func() { fmt.Fprintf(o.stdout, "node %d is removed\n", what.Node) })
}
