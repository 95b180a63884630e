// Command outcry is the exchange's client for people: it sends a file, opens accounts, trades from the shell,
// prints a journal, checks a data directory, and operates a running exchange.
package main

import (
	"io"
	"os"

	"outcry/cmd/internal/cli"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with its environment as arguments. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newOutcry().Run(args, stdin, stdout, stderr)
}

const overviewText = `outcry talks to an exchange, and looks after its data.`

const statusText = `
The exit status is 0 for success, 1 if the exchange rejected the command or a check failed, 2 for
a wrong command line, and 3 if there was no reply.

In a script, give each order a ref of its own (outcry buy --ref R …) and retry while the exit
status is 3 (no reply); the order is placed at most once. If a retry then exits with 1, the first
try may still have placed the order, since a revoked token, for example, is refused before the
ref is looked up: check with outcry query --ref R ACCOUNT.
`

// newOutcry returns the program outcry with its commands.
func newOutcry() *cli.Program {
	return cli.NewProgram("outcry", overviewText, statusText, commands(), map[string]string{
		"grade": "outcry-lab", "class": "outcry-lab", "bench": "outcry-lab", "demo": "outcry-lab"})
}
