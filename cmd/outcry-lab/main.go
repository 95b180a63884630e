// Command outcry-lab is for teachers, researchers and performance engineers: it grades servers of the protocol,
// creates the accounts of a class, measures a server, and runs a market of bots.
package main

import (
	"io"
	"os"

	"outcry/cmd/internal/cli"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with its environment as arguments. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newLab().Run(args, stdin, stdout, stderr)
}

const overviewText = `outcry-lab grades and measures servers of the protocol, and fills an exchange with traders.`

const statusText = `
The exit status is 0 for success, 1 if the exchange rejected the command or a check failed, 2 for
a wrong command line, and 3 if there was no reply.
`

// newLab returns the program outcry-lab with its commands.
func newLab() *cli.Program {
	return cli.NewProgram("outcry-lab", overviewText, statusText, commands(), nil)
}
