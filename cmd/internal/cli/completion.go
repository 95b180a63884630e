package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"outcry/internal/operate/settings"
)

// shellNames are the shells with completion.
var shellNames = []string{"bash", "zsh", "fish"}

// prepareCompletion returns the function that runs the command completion.
func prepareCompletion(_ *flag.FlagSet, c *Client) func([]string) error {
	return func(words []string) error {
		switch words[0] {
		case "bash":
			completeBash(c.Stdout, c.program)
		case "zsh":
			completeZsh(c.Stdout, c.program)
		case "fish":
			completeFish(c.Stdout, c.program)
		default:
			return Usage(fmt.Sprintf("completion needs %s, not %s", either(shellNames), shown(words[0])))
		}
		return nil
	}
}

// completed holds what the shell offers after a command.
type completed struct {
	name  string   // one or two words; "" for a line that has no command yet
	flags []string // flags with their dashes
	words []string // words that may come next
	files bool     // a file name may come next
}

// completions returns the entries for all commands, for the first words of two-word commands, and for a line without a
// command. More specific entries come first.
func completions(all []Command) (some []completed) {
	var names, groups []string
	for i := range all {
		c := &all[i]
		f, _ := c.FlagSet(new(Client))
		own, common := c.flags(f)
		one := completed{name: c.Name, flags: dashed(own, common),
			files: slices.ContainsFunc(c.Arguments, func(a Argument) bool { return a.File })}
		if c.Name == "completion" {
			one.words = shellNames
		}
		some = append(some, one)
		first, _, two := strings.Cut(c.Name, " ")
		if !slices.Contains(names, first) {
			names = append(names, first)
		}
		if two && !slices.Contains(groups, first) {
			groups = append(groups, first)
		}
	}
	for _, first := range groups {
		var seconds []string
		for _, c := range subcommands(all, first) {
			seconds = append(seconds, strings.TrimPrefix(c.Name, first+" "))
		}
		some = append(some, completed{name: first, words: seconds})
	}
	some[slices.IndexFunc(some, func(c completed) bool { return c.name == "help" })].words = names
	var common []*flag.Flag
	commonFlags.VisitAll(func(fl *flag.Flag) { common = append(common, fl) })
	return append(some, completed{words: names, flags: dashed(common)})
}

// dashed returns the flags with their dashes, and --help.
func dashed(some ...[]*flag.Flag) (names []string) {
	for _, fl := range slices.Concat(some...) {
		names = append(names, "--"+fl.Name)
	}
	return append(names, "--help")
}

// valueFlags returns the flags of all commands that need a value, and among them the flags whose value is a file.
func valueFlags(all []Command) (values, files []string) {
	isFile, isSwitch := map[string]bool{}, map[string]bool{}
	for i := range all {
		f, _ := all[i].FlagSet(new(Client))
		f.VisitAll(func(fl *flag.Flag) {
			if name, _ := flag.UnquoteUsage(fl); settings.IsSwitch(fl) {
				isSwitch["--"+fl.Name] = true
			} else {
				isFile["--"+fl.Name] = name == "file" || name == "directory"
			}
		})
	}
	for name, file := range isFile {
		if isSwitch[name] {
			continue
		}
		values = append(values, name)
		if file {
			files = append(files, name)
		}
	}
	slices.Sort(values)
	slices.Sort(files)
	return values, files
}

// walk is the bash and zsh code that finds the command among the words before the cursor. Its placeholders in
// capital letters, such as WORDS for the array of words and AT for the cursor's index in it, are replaced by
// walkOf.
const walk = `  local i skip= flags= next= files= first= second=
  for ((i = FROM; i < AT; i++)); do
    case ${WORDS[i]} in '=' | ':') skip=1; continue ;; esac # bash breaks words there
    if [[ -n $skip ]]; then skip=; continue; fi
    case ${WORDS[i]} in
    VALUES) skip=1 ;;
    -*) ;;
    *) if [[ -z $first ]]; then first=${WORDS[i]}; elif [[ -z $second ]]; then second=${WORDS[i]}; fi ;;
    esac
  done
  case "$first $second" in
CASES  esac
`

// walkOf returns walk with its placeholders replaced.
func walkOf(all []Command, words, from, at string) string {
	values, _ := valueFlags(all)
	var cases strings.Builder
	for _, c := range completions(all) {
		pattern := `"` + c.name + ` "*`
		if strings.Contains(c.name, " ") {
			pattern = `"` + c.name + `"`
		}
		files := ""
		if c.files {
			files = "1"
		}
		fmt.Fprintf(&cases, "  %s) flags='%s' next='%s' files=%s ;;\n", pattern, strings.Join(c.flags, " "),
			strings.Join(c.words, " "), files)
	}
	return strings.NewReplacer("WORDS", words, "FROM", from, "AT", at, "VALUES", strings.Join(values, " | "),
		"CASES", cases.String()).Replace(walk)
}

// groupSummaries maps the first word of two-word commands to a summary of these commands.
var groupSummaries = map[string]string{
	"token": "make, list and revoke tokens", "cluster": "look at a cluster and change its nodes",
	"bench": "measure how fast a server is", "class": "make and reset the accounts of a class",
}

func completeBash(w io.Writer, p *Program) {
	all := p.commands
	_, files := valueFlags(all)
	fmt.Fprintf(w, `# Completion of %[1]s for bash. Written by %[1]s completion bash.
_%[1]s() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
%[2]s  COMPREPLY=()
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  case $prev in %[3]s) skip=1 files=1 ;; *) [[ -n $skip ]] && files= ;; esac
  if [[ -z $skip && $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ -z $skip ]]; then
    COMPREPLY=($(compgen -W "$next" -- "$cur"))
  fi
}
complete -F _%[1]s %[1]s
`, p.name, walkOf(all, "COMP_WORDS", "1", "COMP_CWORD"), strings.Join(files, " | "))
}

func completeZsh(w io.Writer, p *Program) {
	all := p.commands
	_, files := valueFlags(all)
	fmt.Fprintf(w, `#compdef %[1]s
# Completion of %[1]s for zsh. Written by %[1]s completion zsh.
_%[1]s() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]}
%[2]s  case $prev in %[3]s) skip=1 files=1 ;; *) [[ -n $skip ]] && files= ;; esac
  if [[ -z $skip && $cur == -* ]]; then
    compadd -- ${=flags}
  elif [[ -n $files ]]; then
    _files
  elif [[ -z $skip ]]; then
    compadd -- ${=next}
  fi
}
if [[ $funcstack[1] == _%[1]s ]]; then _%[1]s "$@"; else compdef _%[1]s %[1]s; fi
`, p.name, walkOf(all, "words", "2", "CURRENT"), strings.Join(files, " | "))
}

func completeFish(w io.Writer, p *Program) {
	all := p.commands
	fmt.Fprintf(w, `# Completion of %[1]s for fish. Written by %[1]s completion fish.
complete -c %[1]s -f
complete -c %[1]s -l help -d 'show help'
`, p.name)
	values, files := valueFlags(all)
	flagLine := func(condition string, fl *flag.Flag) {
		kind := ""
		switch name := "--" + fl.Name; {
		case slices.Contains(files, name):
			kind = " -r -F"
		case slices.Contains(values, name):
			kind = " -x"
		}
		_, text := flag.UnquoteUsage(fl)
		fmt.Fprintf(w, "complete -c %s%s -l %s%s -d %s\n", p.name, condition, fl.Name, kind, fishQuote(text))
	}
	commonFlags.VisitAll(func(fl *flag.Flag) { flagLine("", fl) })
	var groups []string
	for i := range all {
		c := &all[i]
		f, _ := c.FlagSet(new(Client))
		own, _ := c.flags(f)
		first, second, two := strings.Cut(c.Name, " ")
		seen := "__fish_seen_subcommand_from " + first
		if !slices.Contains(groups, first) {
			summary := c.Summary
			if two {
				summary = groupSummaries[first]
			}
			fmt.Fprintf(w, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", p.name, first, fishQuote(summary))
			groups = append(groups, first)
		}
		if two {
			fmt.Fprintf(w, "complete -c %s -n %s -a %s -d %s\n", p.name, fishQuote(seen), second, fishQuote(c.Summary))
			seen += "; and __fish_seen_subcommand_from " + second
		}
		if slices.ContainsFunc(c.Arguments, func(a Argument) bool { return a.File }) {
			fmt.Fprintf(w, "complete -c %s -n %s -F\n", p.name, fishQuote(seen))
		}
		for _, fl := range own {
			flagLine(" -n "+fishQuote(seen), fl)
		}
	}
	fmt.Fprintf(w, "complete -c %s -n '__fish_seen_subcommand_from completion' -a %s\n", p.name,
		fishQuote(strings.Join(shellNames, " ")))
}

// fishQuote quotes a text for fish.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
