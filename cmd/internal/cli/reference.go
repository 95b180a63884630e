package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"outcry/internal/operate/settings"
)

// PrintReference prints a page of docs/reference with the help of all commands of a program and, if server is
// true, the settings of outcryd.
func PrintReference(w io.Writer, p *Program, server bool) {
	all := p.commands
	fmt.Fprintf(w, `# Command line of %[1]s

Generated from the tables of commands and settings: do not edit. It is written by
`+"`make reference`"+`.

## %[1]s

Flags may precede or follow the arguments; `+"`%[1]s help COMMAND`"+` prints what is below.

| command | |
| --- | --- |
`, p.name)
	for i := range all {
		c := &all[i]
		anchor := p.name + "-" + strings.ReplaceAll(c.Name, " ", "-")
		fmt.Fprintf(w, "| [`%s`](#%s) | %s |\n", cell(c.title()), anchor, c.Summary)
	}
	fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(p.status))
	for i := range all {
		all[i].printSection(w)
	}
	fmt.Fprint(w, "\n## Flags of all commands that connect to an exchange\n\n")
	printFlagTable(w, flagsOf(commonFlags))
	fmt.Fprint(w, "\n`OUTCRY_TOKEN` holds a token itself.\n")
	if server {
		printServerReference(w)
	}
}

// printServerReference prints the settings of outcryd.
func printServerReference(w io.Writer) {
	fmt.Fprint(w, `
## outcryd

Each setting is a flag, a variable of the environment (`+"`--max-frame`: `OUTCRY_MAX_FRAME`"+`), and a
line of the file that `+"`--config`"+` names (`+"`max-frame = 64KiB`"+`). A flag overrides the environment,
which overrides the file. Sizes are in bytes, or in KiB, MiB, GiB or TiB; durations are
numbers with ms, s, m or h.

`)
	printFlagTable(w, flagsOf(settings.Flags()))
}

// printSection prints the reference's section about a command.
func (c *Command) printSection(w io.Writer) {
	fmt.Fprintf(w, "\n### %s %s\n\n%s%s.\n\n    %s\n\n", c.program, c.Name, strings.ToUpper(c.Summary[:1]), c.Summary[1:],
		c.Usage())
	for _, a := range c.Arguments {
		fmt.Fprintf(w, "- `%s`: %s\n", a.Name, a.Help)
	}
	if len(c.Arguments) > 0 {
		fmt.Fprintln(w)
	}
	if c.Text != "" {
		fmt.Fprintf(w, "```text\n%s\n```\n\n", strings.TrimSpace(c.Text))
	}
	for i, example := range c.Examples {
		if i == 0 {
			fmt.Fprint(w, "Example:\n\n")
		}
		fmt.Fprintf(w, "    %s %s\n", c.program, example)
	}
	f, _ := c.FlagSet(new(Client))
	if own, _ := c.flags(f); len(own) > 0 {
		fmt.Fprintln(w)
		printFlagTable(w, own)
	}
}

// printFlagTable prints flags as a Markdown table.
func printFlagTable(w io.Writer, flags []*flag.Flag) {
	fmt.Fprint(w, "| flag | |\n| --- | --- |\n")
	for _, fl := range flags {
		name, text := settings.FlagText(fl)
		fmt.Fprintf(w, "| `--%s` | %s |\n", cell(name), cell(text))
	}
}

// flagsOf returns all flags of a set.
func flagsOf(f *flag.FlagSet) (all []*flag.Flag) {
	f.VisitAll(func(fl *flag.Flag) { all = append(all, fl) })
	return all
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
