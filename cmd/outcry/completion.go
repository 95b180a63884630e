package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"outcry/internal/operate/settings"
)

// shellNames are the shells that there is completion for.
var shellNames = []string{"bash", "zsh", "fish"}

// prepareCompletion is the command.
func prepareCompletion(_ *flag.FlagSet, c *client) func([]string) error {
	return func(words []string) error {
		switch words[0] {
		case "bash":
			completeBash(c.stdout, commands())
		case "zsh":
			completeZsh(c.stdout, commands())
		case "fish":
			completeFish(c.stdout, commands())
		default:
			return &usageError{fmt.Sprintf("completion needs %s, not %s", either(shellNames), shown(words[0]))}
		}
		return nil
	}
}

// completed is what completion has to know of a command.
type completed struct {
	name  string   // one word or two; "" for a line without a command yet
	flags []string // with their dashes
	words []string // that may come next
	files bool     // or the name of a file
}

// completions returns them for all commands, for the first words of those of two, and for
// a line without a command. The more special come first.
func completions(all []command) (some []completed) {
	var names, groups []string
	for i := range all {
		c := &all[i]
		f, _ := c.flagSet(new(client))
		own, common := c.flags(f)
		one := completed{name: c.name, flags: dashed(own, common),
			files: slices.ContainsFunc(c.arguments, func(a argument) bool { return a.file })}
		if c.name == "completion" {
			one.words = shellNames
		}
		some = append(some, one)
		first, _, two := strings.Cut(c.name, " ")
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
			seconds = append(seconds, strings.TrimPrefix(c.name, first+" "))
		}
		some = append(some, completed{name: first, words: seconds})
	}
	some[slices.IndexFunc(some, func(c completed) bool { return c.name == "help" })].words = names
	var common []*flag.Flag
	commonFlags.VisitAll(func(fl *flag.Flag) { common = append(common, fl) })
	return append(some, completed{words: names, flags: dashed(common)})
}

// dashed returns the flags as they are typed, with --help.
func dashed(some ...[]*flag.Flag) (names []string) {
	for _, fl := range slices.Concat(some...) {
		names = append(names, "--"+fl.Name)
	}
	return append(names, "--help")
}

// valueFlags returns the flags that need a value of every command that has them, and those of them
// whose value is a file.
func valueFlags(all []command) (values, files []string) {
	isFile, isSwitch := map[string]bool{}, map[string]bool{}
	for i := range all {
		f, _ := all[i].flagSet(new(client))
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

// walk is in bash and zsh how the words in front of the cursor are found: WORDS and AT are
// the array and the place in it.
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

// walkOf fills it in.
func walkOf(all []command, words, from, at string) string {
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

func completeBash(w io.Writer, all []command) {
	_, files := valueFlags(all)
	fmt.Fprintf(w, `# Completion of outcry for bash. outcry completion bash wrote it.
_outcry() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
%s  COMPREPLY=()
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  case $prev in %s) skip=1 files=1 ;; *) [[ -n $skip ]] && files= ;; esac
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
complete -F _outcry outcry
`, walkOf(all, "COMP_WORDS", "1", "COMP_CWORD"), strings.Join(files, " | "))
}

func completeZsh(w io.Writer, all []command) {
	_, files := valueFlags(all)
	fmt.Fprintf(w, `#compdef outcry
# Completion of outcry for zsh. outcry completion zsh wrote it.
_outcry() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]}
%s  case $prev in %s) skip=1 files=1 ;; *) [[ -n $skip ]] && files= ;; esac
  if [[ -z $skip && $cur == -* ]]; then
    compadd -- ${=flags}
  elif [[ -n $files ]]; then
    _files
  elif [[ -z $skip ]]; then
    compadd -- ${=next}
  fi
}
if [[ $funcstack[1] == _outcry ]]; then _outcry "$@"; else compdef _outcry outcry; fi
`, walkOf(all, "words", "2", "CURRENT"), strings.Join(files, " | "))
}

func completeFish(w io.Writer, all []command) {
	fmt.Fprint(w, `# Completion of outcry for fish. outcry completion fish wrote it.
complete -c outcry -f
complete -c outcry -l help -d 'show help'
`)
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
		fmt.Fprintf(w, "complete -c outcry%s -l %s%s -d %s\n", condition, fl.Name, kind, fishQuote(text))
	}
	commonFlags.VisitAll(func(fl *flag.Flag) { flagLine("", fl) })
	var groups []string
	for i := range all {
		c := &all[i]
		f, _ := c.flagSet(new(client))
		own, _ := c.flags(f)
		first, second, two := strings.Cut(c.name, " ")
		seen := "__fish_seen_subcommand_from " + first
		if !slices.Contains(groups, first) {
			summary := c.summary
			if two {
				summary = "make, list and revoke tokens"
			}
			fmt.Fprintf(w, "complete -c outcry -n __fish_use_subcommand -a %s -d %s\n", first, fishQuote(summary))
			groups = append(groups, first)
		}
		if two {
			fmt.Fprintf(w, "complete -c outcry -n %s -a %s -d %s\n", fishQuote(seen), second, fishQuote(c.summary))
			seen += "; and __fish_seen_subcommand_from " + second
		}
		if slices.ContainsFunc(c.arguments, func(a argument) bool { return a.file }) {
			fmt.Fprintf(w, "complete -c outcry -n %s -F\n", fishQuote(seen))
		}
		for _, fl := range own {
			flagLine(" -n "+fishQuote(seen), fl)
		}
	}
	fmt.Fprintf(w, "complete -c outcry -n '__fish_seen_subcommand_from completion' -a %s\n",
		fishQuote(strings.Join(shellNames, " ")))
}

// fishQuote quotes a text for fish.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
