package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"outcry/internal/operate/settings"
	"outcry/internal/process/phrase"
)

// Command is a row of the table of commands. Parsing, usage, help, completion and docs/reference/CLI.md are
// all made from it.
type Command struct {
	program   string // name of the program, set by NewProgram
	Name      string // one or two words
	Arguments []Argument
	Summary   string   // one line that begins with a lower-case letter
	Text      string   // further text of --help, or ""
	Examples  []string // command lines without the program's name
	Reaches   Reach

	// Prepare declares the command's own flags and returns the function that runs the command with words that fit
	// Arguments. That function returns flag.ErrHelp, a *UsageError, an *UncheckedError, a *NoAnswerError,
	// ErrAnswered, ErrBad, or any other failure.
	Prepare func(f *flag.FlagSet, c *Client) func(words []string) error
}

// Argument is a positional argument of a command.
type Argument struct {
	Name, Help string
	Optional   bool
	Many       bool   // accepts any number of words
	Flag       string // flag that can replace the word; several are separated by commas
	Freed      string // flag that makes the argument optional
	File       bool   // names a file or directory, which completion offers
}

// Reach is the side of an exchange that a command connects to. Common flags for the other side do not apply to
// the command.
type Reach int

// Sides of an exchange. The zero value is for commands that connect to nothing.
const (
	nothing Reach = iota
	XMLSide
	HTTPSide
	EitherSide // the XML side, or the HTTP side if certain flags are given
	Foreign    // any server, with the command's own --addr; the environment does not apply
)

// Arguments that mean the same in every command.
var (
	AccountWord = Argument{Name: "ACCOUNT", Help: "id of the account, 1 to 64 digits"}
	SymWord     = Argument{Name: "SYM", Help: "symbol, 1 to 32 of A-Z a-z 0-9", Flag: "sym"}
	SharesWord  = Argument{Name: "SHARES", Help: "number of shares, more than 0, up to 8 decimals"}
	OrderWord   = Argument{Name: "ORDER", Help: "number of the order; left out with --ref", Flag: "ref"}
	OnlySym     = Argument{Name: "SYM", Help: "only those of this symbol", Optional: true, Flag: "sym"}
)

// title returns the command's name and arguments, as in a usage line.
func (c *Command) title() string {
	words := []string{c.Name}
	for _, a := range c.Arguments {
		switch {
		case a.Many:
			words = append(words, "["+a.Name+"...]")
		case a.Optional:
			words = append(words, "["+a.Name+"]")
		default:
			words = append(words, a.Name)
		}
	}
	return strings.Join(words, " ")
}

// Usage returns the command's usage in one line.
func (c *Command) Usage() string {
	return c.program + " " + strings.Replace(c.title(), c.Name, c.Name+" [flags]", 1)
}

// FlagSet declares the command's own flags and the common flags. It returns the flags and the function that runs
// the command.
func (c *Command) FlagSet(in *Client) (f *flag.FlagSet, do func(words []string) error) {
	f = flag.NewFlagSet(c.program+" "+c.Name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	in.Access.flags(f)
	return f, c.Prepare(f, in)
}

// isCommon reports whether a flag of the command is one of commonFlags. A command that reaches Foreign servers has its
// own --addr instead of the common one.
func (c *Command) isCommon(fl *flag.Flag) bool {
	return commonFlags.Lookup(fl.Name) != nil && !(c.Reaches == Foreign && fl.Name == "addr")
}

// commonFlags are the flags that all commands have.
var commonFlags = func() *flag.FlagSet {
	f := flag.NewFlagSet("outcry", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	new(Access).flags(f)
	return f
}()

// concerns reports whether a flag has an effect on the command.
func (c *Command) concerns(fl *flag.Flag) bool {
	switch {
	case !c.isCommon(fl):
		return true
	case c.Reaches == nothing || c.Reaches == Foreign:
		return false
	case fl.Name == "addr":
		return c.Reaches != HTTPSide
	case fl.Name == "http":
		return c.Reaches != XMLSide
	}
	return true
}

// find returns the command that the first words name, and how many words its name has. It returns nil and 0 if
// there is no such command.
func find(all []Command, words []string) (*Command, int) {
	for n := min(2, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		if i := slices.IndexFunc(all, func(c Command) bool { return c.Name == name }); i >= 0 {
			return &all[i], n
		}
	}
	return nil, 0
}

// line is a parsed command line.
type line struct {
	Command *Command // nil if the words name no command
	words   []string // all words, including the command's name
	Help    bool     // help was asked for
	run     func() error
}

// Read parses a command line. On a *UsageError the line still has the command, if it is known.
func (p *Program) Read(in *Client, args []string) (l line, err error) {
	all := p.commands
	l.words, l.Help, err = split(all, args)
	if len(l.words) > 0 && l.words[0] == "help" {
		l.words, l.Help = l.words[1:], true
	}
	if len(l.words) > 0 && p.elsewhere[l.words[0]] != "" {
		return l, Usage(l.words[0] + " is a command of " + p.elsewhere[l.words[0]] + " now")
	}
	n := 0
	l.Command, n = find(all, l.words)
	switch {
	case l.Help:
		return l, nil
	case l.Command == nil && err != nil:
		return l, Usage(err.Error())
	case l.Command == nil:
		return l, p.unknownCommand(l.words)
	}
	f, do := l.Command.FlagSet(in)
	words, err := settings.ParseFlags(f, args)
	if err != nil {
		return l, Usage(err.Error())
	}
	if words, err = l.Command.Fit(f, words[n:]); err != nil {
		return l, err
	}
	if err := in.Access.complete(f, l.Command.Reaches); err != nil {
		return l, err
	}
	l.run = func() error { return do(words) }
	return l, nil
}

// split removes the flags from a line and returns its words, and whether help is requested. It knows the flags of all
// commands. unknown is the error for a flag that no command has.
func split(all []Command, args []string) (words []string, help bool, unknown error) {
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
				n = 2 // the next argument is the flag's value
			}
		}
		args = args[n:]
	}
	return words, help, unknown
}

// everyFlag returns the flags of all commands. Only their names and whether they need a value are set.
func everyFlag(all []Command) *flag.FlagSet {
	union := flag.NewFlagSet("outcry", flag.ContinueOnError)
	union.SetOutput(io.Discard)
	for i := range all {
		f, _ := all[i].FlagSet(new(Client))
		f.VisitAll(func(fl *flag.Flag) {
			if union.Lookup(fl.Name) == nil {
				union.Var(anything{settings.IsSwitch(fl)}, fl.Name, "")
			}
		})
	}
	return union
}

// anything is a flag that accepts any value; it only records whether it is a switch.
type anything struct{ isSwitch bool }

func (anything) Set(string) error   { return nil }
func (anything) String() string     { return "" }
func (a anything) IsBoolFlag() bool { return a.isSwitch }

// unknownCommand returns the error for words that name no command.
func (p *Program) unknownCommand(words []string) error {
	all := p.commands
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	if len(words) == 0 {
		return Usage("a command is missing")
	}
	if group := subcommands(all, words[0]); len(group) > 0 {
		names = nil
		for _, c := range group {
			names = append(names, strings.TrimPrefix(c.Name, words[0]+" "))
		}
		if len(words) == 1 {
			return Usage(fmt.Sprintf("%s takes %s", words[0], either(names)))
		}
		return Usage(fmt.Sprintf("%s takes %s, not %s", words[0], either(names), shown(words[1])))
	}
	if !strings.HasPrefix(shown(words[0]), `"`) {
		return Usage("unknown command, not shown because it may be a secret")
	}
	return Usage("unknown command " + shown(words[0]) + settings.Suggest(words[0], names))
}

// subcommands returns the commands of two words whose first word is first.
func subcommands(all []Command, first string) (some []Command) {
	for _, c := range all {
		if strings.HasPrefix(c.Name, first+" ") {
			some = append(some, c)
		}
	}
	return some
}

// Fit returns the words of a command, with the value of --sym inserted where its argument belongs. It returns a
// *UsageError if there are too few or too many words, or if a flag that replaces an argument is empty.
func (c *Command) Fit(f *flag.FlagSet, words []string) ([]string, error) {
	given := map[string]string{}
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = fl.Value.String() })
	var wanted, missing []string
	name, most, added := c.Name, 0, 0 // most: words allowed; added: words inserted from flags
	for i, a := range c.Arguments {
		_, free := given[a.Freed]
		value, instead := "", false
		for flag := range strings.SplitSeq(a.Flag, ",") {
			if text, is := given[flag]; is && !instead {
				value, instead, a.Flag = text, true, flag
			}
		}
		switch {
		case instead && value == "":
			return nil, Usage(fmt.Sprintf("--%s is empty", a.Flag))
		case instead && a.Flag == "sym" && len(words) >= i:
			words = slices.Insert(slices.Clone(words), i, value)
			name, added = name+" with --"+a.Flag, added+1
		case instead:
			name += " with --" + a.Flag
			continue
		}
		most++
		if !a.Optional && !free {
			wanted = append(wanted, a.Name)
			if len(words) < len(wanted) {
				missing = append(missing, a.Name)
			}
		}
		if a.Many {
			most = len(words)
		}
	}
	switch {
	case len(missing) > 0:
		verb := "is"
		if len(missing) > 1 {
			verb = "are"
		}
		return nil, Usage(fmt.Sprintf("%s: %s %s missing", c.Name, phrase.List(missing, "and"), verb))
	case len(words) > most && most == 0:
		return nil, Usage(fmt.Sprintf("%s takes no arguments, not %d", name, len(words)))
	case len(words) > most:
		return nil, Usage(fmt.Sprintf("%s takes %s, not %d", name, phrase.Number(most-added, "argument"), len(words)-added))
	}
	return words, nil
}

// either lists words as alternatives: "a, b or c".
func either(words []string) string { return phrase.List(words, "or") }
