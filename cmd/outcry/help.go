package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"outcry/internal/operate/settings"
	"outcry/internal/process/version"
)

const overview = `outcry talks to an exchange, and looks after its data.

Usage: outcry COMMAND [flags] ARGUMENTS

`

const exitText = `
The exit status is 0 if it is done, 1 if the exchange rejected it or something is wrong, 2 for
a wrong command line, and 3 if there was no reply.

In a script, give each order a ref of its own (outcry buy --ref R …) and retry while the exit
status is 3 (no reply); the order is placed at most once. After a 3, a 1 does not say
that it was not done, since a revoked token, say, is refused before the ref is looked at: ask
with outcry query --ref R ACCOUNT.
`

// printOverview prints the commands.
func printOverview(w io.Writer, all []command) {
	io.WriteString(w, overview)
	widest := 0
	for i := range all {
		widest = max(widest, len(all[i].title()))
	}
	for i := range all {
		fmt.Fprintf(w, "  %-*s  %s\n", widest, all[i].title(), all[i].summary)
	}
	fmt.Fprint(w, "\nFlags stand before or after the words. outcry help COMMAND explains a command and its flags.\n",
		exitText, "\nFlags of all commands that connect to an exchange:\n")
	settings.PrintFlags(w, commonFlags, nil)
}

// print prints the help of a command.
func (c *command) print(w io.Writer) {
	fmt.Fprintf(w, "outcry %s: %s.\n\n", c.name, c.summary)
	c.printUsage(w)
	if len(c.arguments) > 0 {
		fmt.Fprint(w, "\nArguments:\n")
		for _, a := range c.arguments {
			fmt.Fprintf(w, "  %-9s %s\n", a.name, a.help)
		}
	}
	if c.text != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.text))
	}
	f, _ := c.flagSet(new(client))
	if own, common := c.flags(f); len(own)+len(common) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
		settings.PrintFlags(w, f, func(fl *flag.Flag) bool { return !c.isCommon(fl) })
		settings.PrintFlags(w, f, func(fl *flag.Flag) bool { return c.isCommon(fl) && c.concerns(fl) })
	}
}

// printUsage prints how a command is typed, with examples.
func (c *command) printUsage(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s\n", c.usage())
	for _, example := range c.examples {
		fmt.Fprintf(w, "Example: outcry %s\n", example)
	}
}

// flags returns the flags that do something for a command: its own, and the common ones.
func (c *command) flags(f *flag.FlagSet) (own, common []*flag.Flag) {
	f.VisitAll(func(fl *flag.Flag) {
		switch {
		case !c.isCommon(fl):
			own = append(own, fl)
		case c.concerns(fl):
			common = append(common, fl)
		}
	})
	return own, common
}

// printHelp prints what is asked for: one command, those that begin with a word, or all.
// It returns a *usageError if the words name none.
func printHelp(w io.Writer, all []command, words []string) error {
	c, _ := find(all, words)
	switch {
	case c != nil:
		c.print(w)
	case len(words) == 0:
		printOverview(w, all)
	case len(words) == 1 && len(subcommands(all, words[0])) > 0:
		for i, c := range subcommands(all, words[0]) {
			if i > 0 {
				fmt.Fprintln(w)
			}
			c.print(w)
		}
	default:
		return unknownCommand(all, words)
	}
	return nil
}

// printMistake says what is wrong with a command line, and how the command is typed.
func printMistake(w io.Writer, c *command, err error) {
	fmt.Fprintf(w, "outcry: %v\n", err)
	if c == nil {
		fmt.Fprintln(w, "Usage: outcry COMMAND [flags] ARGUMENTS; outcry help lists the commands")
		return
	}
	c.printUsage(w)
	fmt.Fprintf(w, "outcry help %s explains it\n", c.name)
}

// prepareHelp is in the table for completion and the reference; read takes help before it
// looks there.
func prepareHelp(_ *flag.FlagSet, c *client) func([]string) error {
	return func(words []string) error { return printHelp(c.stdout, commands(), words) }
}

// prepareVersion is the command.
func prepareVersion(_ *flag.FlagSet, c *client) func([]string) error {
	return func([]string) error {
		_, err := fmt.Fprintln(c.stdout, "outcry", version.String())
		return err
	}
}
