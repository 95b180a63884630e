package main

import (
	"flag"
	"fmt"
	"path/filepath"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/trial"
	"outcry/internal/process/child"
)

const tryText = `Runs three nodes on this machine, to show what a cluster does; real nodes run on three machines.
Kill the leader (kill -9 with the printed pid): another node takes over, and the killed node is
started again. Their data stay in --dir, and the next run continues with them.

Node 1 has the ports after --base-port: XML, HTTP, and for the other nodes; node 2 has the next
three, and so on. The cluster runs until Ctrl-C; the nodes end with it.`

// tryPortMax is the largest --base-port of cluster try.
const tryPortMax = 65535 - trial.Ports

// prepareTry declares the flags of the command cluster try and returns the function that runs it.
func prepareTry(f *flag.FlagSet, c *cli.Client) func([]string) error {
	dir := f.String("dir", "outcry-cluster", "`directory` of the nodes' data and logs")
	base := f.Int("base-port", 12400, "the nodes use the nine ports after this one")
	program := f.String("outcryd", "", "`program` of the nodes; the outcryd next to this program if left out")
	return func([]string) error {
		if *base < 1 || *base > tryPortMax {
			return cli.Usage(fmt.Sprintf("--base-port %d: must be from 1 to %d", *base, tryPortMax))
		}
		found, err := child.FindServer(*program)
		if err != nil {
			return err
		}
		whole, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		ctx, stop := cli.Interruptible()
		defer stop()
		return trial.Run(ctx, trial.Options{Program: found, Dir: whole, BasePort: *base, Out: c.Stdout})
	}
}
