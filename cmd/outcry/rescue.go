package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"outcry/cmd/internal/cli"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate/settings"
	"outcry/internal/replica/raftlog"
)

const clusterRescueText = `Use this when the majority of the nodes is lost for good. Take the node with the highest
record (see cluster status, or the output of this command), stop it, and make sure that no other
node of the old cluster ever starts again: it would be a second exchange. The node becomes the
first and only member of a new cluster, with everything in its journal and its part of Raft's log.
Records that only the other nodes had are lost, although clients may have had replies to them.
Nothing is deleted: the old log is set aside.

Then start the node with only itself in --peers, and add other nodes, with empty directories. With
--alone it becomes a server without a cluster instead.`

// prepareRescue declares the flags of the command cluster rescue and returns the function that runs it.
func prepareRescue(f *flag.FlagSet, c *cli.Client) func([]string) error {
	where := cli.Locating(f, "the local cluster below the data directory")
	alone := f.Bool("alone", false, "make it a server without a cluster")
	address := f.String("address", "", "`HOST:PORT` where new nodes reach it; unchanged if left out")
	return func(words []string) error {
		at, err := where.Find()
		if err != nil {
			return err
		}
		if len(words) > 1 {
			at.Data = words[1]
		}
		node, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || node == 0 {
			return cli.Usage(fmt.Sprintf("%s is not a node number, which is 1 or more", words[0]))
		}
		return rescue(at.Data, node, *address, *alone, c.Stdout)
	}
}

// rescue makes the stopped node in dir the first of a new cluster, or, if alone, a server without a cluster.
func rescue(dir string, node uint64, address string, alone bool, stdout io.Writer) (err error) {
	if err := settings.RequireDir(dir, "there is no data directory %s", dir); err != nil {
		return err
	}
	lock, err := journal.Lock(dir)
	if err != nil {
		return fmt.Errorf("the node must not be running: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if _, err := os.Lstat(filepath.Join(dir, "BROKEN")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s says that the history of this node is not that of its cluster: rescue another one",
			filepath.Join(dir, "BROKEN"))
	}
	if of, err := raftlog.NumberIn(dir); err != nil {
		return err
	} else if of != 0 && of != node {
		return fmt.Errorf("the directory %s is node %d's, not node %d's", dir, of, node)
	}
	s := raftlog.Stopped{Dir: filepath.Join(dir, "raft"), Node: node, Journal: filepath.Join(dir, "journal"),
		Options: journal.Options{Version: exchange.EventVersion}}
	if alone {
		o, err := s.Leave()
		if err != nil {
			return err
		}
		printRescued(stdout, o, fmt.Sprintf("node %d is a server without a cluster", node),
			"start it without --node and --peers")
		return nil
	}
	if address == "" {
		if address, err = addressOf(s.Dir, node); err != nil {
			return err
		}
	}
	o, err := s.Rescue(address)
	if err != nil {
		return err
	}
	printRescued(stdout, o, fmt.Sprintf("node %d is the first of a new cluster", node),
		fmt.Sprintf("start it with --node %d --peers %d=%s", node, node, address))
	return nil
}

// addressOf returns the address at which the old cluster reached a node.
func addressOf(dir string, node uint64) (string, error) {
	summary, err := raftlog.Inspect(dir)
	if err != nil {
		return "", err
	}
	for _, m := range summary.Mark.Members {
		if m.ID == node && m.Address != "" {
			return m.Address, nil
		}
	}
	return "", cli.Usage(fmt.Sprintf("%s has no address of node %d: give --address", dir, node))
}

func printRescued(w io.Writer, o raftlog.Outcome, what, next string) {
	fmt.Fprintf(w, "rescued  %s, as of record %d; %d of its records were in Raft's log only\n", what, o.Last,
		o.Taken)
	if !o.Alone {
		fmt.Fprintf(w, "LOST     records after %d, if another node had any; clients may have had replies to them\n", o.Last)
	}
	fmt.Fprintf(w, "aside    the log of the old cluster is in %s\n", o.Aside)
	fmt.Fprintf(w, "next     %s; never start another node of the old cluster\n", next)
}
