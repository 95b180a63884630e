package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"outcry/internal/operate/settings"
)

// command is a row of the table of commands: what runs it, its usage, its help, completion
// and docs/reference/CLI.md are made of that.
type command struct {
	name      string // one word, or two
	arguments []argument
	summary   string   // one line, with a small letter
	text      string   // what --help says below it; "" for no more
	examples  []string // without "outcry "
	reaches   reach

	// prepare declares the command's own flags and returns what runs it, with the words that
	// fit arguments. That returns flag.ErrHelp, a *usageError, an *uncheckedError, a
	// *noAnswerError, errAnswered, errBad, or what went wrong.
	prepare func(f *flag.FlagSet, c *client) func(words []string) error
}

// argument is a word that a command takes.
type argument struct {
	name, help string
	optional   bool
	many       bool   // any number of words
	flag       string // that can be given in place of the word, or several with commas between them
	freed      string // flag with which it is optional
	file       bool   // names a file or directory: completion offers them
}

// reach is what of an exchange a command connects to, and so which of the common flags are
// for it.
type reach int

const (
	nothing reach = iota
	xmlSide
	httpSide
	eitherSide // the HTTP side with some flags
	foreign    // a server that need not be ours, with an --addr of its own; the environment says nothing of it
)

// A command's words, which mean the same everywhere.
var (
	accountWord = argument{name: "ACCOUNT", help: "id of the account, 1 to 64 digits"}
	symWord     = argument{name: "SYM", help: "symbol, 1 to 32 of A-Z a-z 0-9", flag: "sym"}
	sharesWord  = argument{name: "SHARES", help: "number of shares, more than 0, up to 8 decimals"}
	orderWord   = argument{name: "ORDER", help: "number of the order; left out with --ref", flag: "ref"}
	onlySym     = argument{name: "SYM", help: "only those of this symbol", optional: true, flag: "sym"}
)

// title returns a command with its arguments, as usage shows it.
func (c *command) title() string {
	words := []string{c.name}
	for _, a := range c.arguments {
		switch {
		case a.many:
			words = append(words, "["+a.name+"...]")
		case a.optional:
			words = append(words, "["+a.name+"]")
		default:
			words = append(words, a.name)
		}
	}
	return strings.Join(words, " ")
}

// usage returns how it is typed, in one line.
func (c *command) usage() string {
	return "outcry " + strings.Replace(c.title(), c.name, c.name+" [flags]", 1)
}

// flagSet declares the flags of a command, its own and the common ones, and returns what
// runs it.
func (c *command) flagSet(in *client) (f *flag.FlagSet, do func(words []string) error) {
	f = flag.NewFlagSet("outcry "+c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	in.access.flags(f)
	return f, c.prepare(f, in)
}

// isCommon reports whether a flag is one of all commands, and not the command's own of that name.
func (c *command) isCommon(fl *flag.Flag) bool {
	return commonFlags.Lookup(fl.Name) != nil && !(c.reaches == foreign && fl.Name == "addr")
}

// commonFlags are those of all commands.
var commonFlags = func() *flag.FlagSet {
	f := flag.NewFlagSet("outcry", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	new(access).flags(f)
	return f
}()

// concerns reports whether a flag does something for a command.
func (c *command) concerns(fl *flag.Flag) bool {
	switch {
	case !c.isCommon(fl):
		return true
	case c.reaches == nothing || c.reaches == foreign:
		return false
	case fl.Name == "addr":
		return c.reaches != httpSide
	case fl.Name == "http":
		return c.reaches != xmlSide
	}
	return true
}

// find returns the command that a line names, and how many of its words are the name; nil
// if there is none.
func find(all []command, words []string) (*command, int) {
	for n := min(2, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		if i := slices.IndexFunc(all, func(c command) bool { return c.name == name }); i >= 0 {
			return &all[i], n
		}
	}
	return nil, 0
}

// line is a command line that has been read.
type line struct {
	command *command // nil if the words name none
	words   []string // all of them
	help    bool     // is asked for
	run     func() error
}

// read reads a command line. The error is a *usageError; the line says then what the
// command is, if that is known.
func read(all []command, in *client, args []string) (l line, err error) {
	l.words, l.help, err = split(all, args)
	if len(l.words) > 0 && l.words[0] == "help" {
		l.words, l.help = l.words[1:], true
	}
	n := 0
	l.command, n = find(all, l.words)
	switch {
	case l.help:
		return l, nil
	case l.command == nil && err != nil:
		return l, &usageError{err.Error()}
	case l.command == nil:
		return l, unknownCommand(all, l.words)
	}
	f, do := l.command.flagSet(in)
	words, err := settings.ParseFlags(f, args)
	if err != nil {
		return l, &usageError{err.Error()}
	}
	if words, err = l.command.fit(f, words[n:]); err != nil {
		return l, err
	}
	if err := in.access.complete(f, l.command.reaches); err != nil {
		return l, err
	}
	l.run = func() error { return do(words) }
	return l, nil
}

// split returns the words of a line, with flags of any command between them, and whether
// help is asked for. The error names a flag that is of no command.
func split(all []command, args []string) (words []string, help bool, unknown error) {
	union := everyFlag(all)
	for len(args) > 0 {
		arg, n := args[0], 1
		switch {
		case arg == "--":
			return append(words, args[1:]...), help, unknown
		case !settings.IsFlag(arg):
			words = append(words, arg)
		default:
			name, _, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			fl := union.Lookup(name)
			switch {
			case name == "help" || name == "h":
				help = true
			case fl == nil:
				_, unknown = settings.ParseFlags(union, args[:1])
			case !given && !settings.IsSwitch(fl) && len(args) > 1:
				n = 2 // the next is its value
			}
		}
		args = args[n:]
	}
	return words, help, unknown
}

// everyFlag returns the flags of all commands, of which only the forms are known.
func everyFlag(all []command) *flag.FlagSet {
	union := flag.NewFlagSet("outcry", flag.ContinueOnError)
	union.SetOutput(io.Discard)
	for i := range all {
		f, _ := all[i].flagSet(new(client))
		f.VisitAll(func(fl *flag.Flag) {
			if union.Lookup(fl.Name) == nil {
				union.Var(anything{settings.IsSwitch(fl)}, fl.Name, "")
			}
		})
	}
	return union
}

// anything is a flag of which only the form is known.
type anything struct{ isSwitch bool }

func (anything) Set(string) error   { return nil }
func (anything) String() string     { return "" }
func (a anything) IsBoolFlag() bool { return a.isSwitch }

// unknownCommand says that the words name no command.
func unknownCommand(all []command, words []string) error {
	var names []string
	for i := range all {
		names = append(names, all[i].name)
	}
	if len(words) == 0 {
		return &usageError{"a command is missing"}
	}
	if group := subcommands(all, words[0]); len(group) > 0 {
		names = nil
		for _, c := range group {
			names = append(names, strings.TrimPrefix(c.name, words[0]+" "))
		}
		if len(words) == 1 {
			return &usageError{fmt.Sprintf("%s takes %s", words[0], either(names))}
		}
		return &usageError{fmt.Sprintf("%s takes %s, not %s", words[0], either(names), shown(words[1]))}
	}
	if !strings.HasPrefix(shown(words[0]), `"`) {
		return &usageError{"unknown command, which is not shown, as it may be a secret"}
	}
	return &usageError{"unknown command " + shown(words[0]) + settings.Suggest(words[0], names)}
}

// subcommands returns the commands of two words that begin with one.
func subcommands(all []command, first string) (some []command) {
	for _, c := range all {
		if strings.HasPrefix(c.name, first+" ") {
			some = append(some, c)
		}
	}
	return some
}

// fit returns the words of a command with what a flag says in place of one, or the
// *usageError that they are too few or too many.
func (c *command) fit(f *flag.FlagSet, words []string) ([]string, error) {
	given := map[string]string{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = fl.Value.String() })
	var wanted, missing []string
	name, most, added := c.name, 0, 0 // words that there may be, and that a flag has added
	for i, a := range c.arguments {
		_, free := given[a.freed]
		value, instead := "", false
		for flag := range strings.SplitSeq(a.flag, ",") {
			if text, is := given[flag]; is && !instead {
				value, instead, a.flag = text, true, flag
			}
		}
		switch {
		case instead && value == "":
			return nil, &usageError{fmt.Sprintf("--%s is empty", a.flag)}
		case instead && a.flag == "sym" && len(words) >= i:
			words = slices.Insert(slices.Clone(words), i, value)
			name, added = name+" with --"+a.flag, added+1
		case instead:
			name += " with --" + a.flag
			continue
		}
		most++
		if !a.optional && !free {
			wanted = append(wanted, a.name)
			if len(words) < len(wanted) {
				missing = append(missing, a.name)
			}
		}
		if a.many {
			most = len(words)
		}
	}
	switch {
	case len(missing) > 0:
		verb := "is"
		if len(missing) > 1 {
			verb = "are"
		}
		return nil, &usageError{fmt.Sprintf("%s: %s %s missing", c.name, list(missing, "and"), verb)}
	case len(words) > most && most == 0:
		return nil, &usageError{fmt.Sprintf("%s takes no arguments, not %d", name, len(words))}
	case len(words) > most:
		return nil, &usageError{
			fmt.Sprintf("%s takes %s, not %d", name, number(most-added, "argument"), len(words)-added)}
	}
	return words, nil
}

// either lists words, of which one is to be chosen.
func either(words []string) string { return list(words, "or") }

// list lists words as people do.
func list(words []string, last string) string {
	if len(words) == 1 {
		return words[0]
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
