package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"outcry/internal/operate/settings"
	"outcry/internal/process/version"
)

// printOverview prints the program's overview with all commands.
func (p *Program) printOverview(w io.Writer) {
	all := p.commands
	fmt.Fprintf(w, "%s\n\nUsage: %s COMMAND [flags] ARGUMENTS\n\n", p.overview, p.name)
	widest := 0
	for i := range all {
		widest = max(widest, len(all[i].title()))
	}
	for i := range all {
		fmt.Fprintf(w, "  %-*s  %s\n", widest, all[i].title(), all[i].Summary)
	}
	fmt.Fprint(w, "\nFlags may precede or follow the arguments. "+p.name+
		" help COMMAND explains a command and its flags.\n", p.status,
		"\nFlags of all commands that connect to an exchange:\n")
	settings.PrintFlags(w, commonFlags, nil)
}

// print prints the help of a command.
func (c *Command) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s: %s.\n\n", c.program, c.Name, c.Summary)
	c.printUsage(w)
	if len(c.Arguments) > 0 {
		fmt.Fprint(w, "\nArguments:\n")
		for _, a := range c.Arguments {
			fmt.Fprintf(w, "  %-9s %s\n", a.Name, a.Help)
		}
	}
	if c.Text != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.Text))
	}
	f, _ := c.FlagSet(new(Client))
	if own, common := c.flags(f); len(own)+len(common) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
		settings.PrintFlags(w, f, func(fl *flag.Flag) bool { return !c.isCommon(fl) })
		settings.PrintFlags(w, f, func(fl *flag.Flag) bool { return c.isCommon(fl) && c.concerns(fl) })
	}
}

// printUsage prints a command's usage line and examples.
func (c *Command) printUsage(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s\n", c.Usage())
	for _, example := range c.Examples {
		fmt.Fprintf(w, "Example: %s %s\n", c.program, example)
	}
}

// flags returns the flags that have an effect on the command: its own flags, and the common flags.
func (c *Command) flags(f *flag.FlagSet) (own, common []*flag.Flag) {
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

// printHelp prints the help of one command, of all commands that begin with a word, or of all commands. It returns
// a *UsageError if the words name no command.
func (p *Program) printHelp(w io.Writer, words []string) error {
	all := p.commands
	c, _ := find(all, words)
	switch {
	case c != nil:
		c.print(w)
	case len(words) == 0:
		p.printOverview(w)
	case len(words) == 1 && len(subcommands(all, words[0])) > 0:
		for i, c := range subcommands(all, words[0]) {
			if i > 0 {
				fmt.Fprintln(w)
			}
			c.print(w)
		}
	default:
		return p.unknownCommand(words)
	}
	return nil
}

// printMistake prints the error of a wrong command line, and the command's usage if it is known.
func (p *Program) printMistake(w io.Writer, c *Command, err error) {
	fmt.Fprintf(w, "%s: %v\n", p.name, err)
	if c == nil {
		fmt.Fprintf(w, "Usage: %[1]s COMMAND [flags] ARGUMENTS; %[1]s help lists the commands\n", p.name)
		return
	}
	c.printUsage(w)
	fmt.Fprintf(w, "%s help %s explains it\n", p.name, c.Name)
}

// prepareHelp is only in the table for completion and the reference. Read handles help before it looks up
// commands.
func prepareHelp(_ *flag.FlagSet, c *Client) func([]string) error {
	return func(words []string) error { return c.program.printHelp(c.Stdout, words) }
}

// prepareVersion returns the function that runs the command version.
func prepareVersion(_ *flag.FlagSet, c *Client) func([]string) error {
	return func([]string) error {
		_, err := fmt.Fprintln(c.Stdout, c.program.name, version.String())
		return err
	}
}

const completionText = `In bash: source <(PROGRAM completion bash). In zsh, after compinit: source <(PROGRAM completion
zsh). In fish: PROGRAM completion fish | source.`

// helpCommands returns the commands help, completion and version of the program name.
func helpCommands(name string) []Command {
	return []Command{
		{Name: "completion", Summary: "print what a shell needs to complete " + name + "'s commands and flags",
			Arguments: []Argument{{Name: "SHELL", Help: "bash, zsh or fish"}},
			Text:      strings.ReplaceAll(completionText, "PROGRAM", name),
			Examples:  []string{"completion bash"}, Prepare: prepareCompletion},
		{Name: "help", Summary: "list the commands, or explain one",
			Arguments: []Argument{{Name: "COMMAND", Help: "the command", Optional: true, Many: true}},
			Examples:  []string{"help buy"}, Prepare: prepareHelp},
		{Name: "version", Summary: "print the version and the commit",
			Examples: []string{"version"}, Prepare: prepareVersion},
	}
}
