package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"outcry/internal/operate/settings"
)

// printReference prints docs/reference/CLI.md: what help says, of all commands and of the
// server, as a page.
func printReference(w io.Writer, all []command) {
	fmt.Fprint(w, `# Command line

Generated from the tables of commands and settings: do not edit. It is written anew by
`+"`make reference`"+`.

## outcry

Flags stand before or after the words; `+"`outcry help COMMAND`"+` prints what is below.

| command | |
| --- | --- |
`)
	for i := range all {
		c := &all[i]
		anchor := "outcry-" + strings.ReplaceAll(c.name, " ", "-")
		fmt.Fprintf(w, "| [`%s`](#%s) | %s |\n", cell(c.title()), anchor, c.summary)
	}
	fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(exitText))
	for i := range all {
		all[i].printSection(w)
	}
	fmt.Fprint(w, "\n## Flags of all commands that connect to an exchange\n\n")
	printFlagTable(w, flagsOf(commonFlags))
	fmt.Fprint(w, `
`+"`OUTCRY_TOKEN`"+` holds a token itself.

## outcryd

Each setting is a flag, a variable of the environment (`+"`--max-frame`: `OUTCRY_MAX_FRAME`"+`), and a
line of the file that `+"`--config`"+` names (`+"`max-frame = 64KiB`"+`). A flag wins over the environment,
which wins over the file. Sizes are in bytes, or in KiB, MiB, GiB or TiB; durations are
numbers with ms, s, m or h.

`)
	printFlagTable(w, flagsOf(settings.Flags()))
}

// printSection prints a command.
func (c *command) printSection(w io.Writer) {
	fmt.Fprintf(w, "\n### outcry %s\n\n%s%s.\n\n    %s\n\n", c.name, strings.ToUpper(c.summary[:1]), c.summary[1:],
		c.usage())
	for _, a := range c.arguments {
		fmt.Fprintf(w, "- `%s`: %s\n", a.name, a.help)
	}
	if len(c.arguments) > 0 {
		fmt.Fprintln(w)
	}
	if c.text != "" {
		fmt.Fprintf(w, "```text\n%s\n```\n\n", strings.TrimSpace(c.text))
	}
	for i, example := range c.examples {
		if i == 0 {
			fmt.Fprint(w, "Example:\n\n")
		}
		fmt.Fprintf(w, "    outcry %s\n", example)
	}
	f, _ := c.flagSet(new(client))
	if own, _ := c.flags(f); len(own) > 0 {
		fmt.Fprintln(w)
		printFlagTable(w, own)
	}
}

// printFlagTable prints flags.
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

// cell makes a text fit for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
