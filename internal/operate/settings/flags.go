package settings

import (
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// ParseFlags parses a command line. Flags, with one dash or two, may come before or after the words, which it
// returns in order. A single dash, a negative number, and everything after "--" are words. The values are set
// on f, and nothing is printed. The error is flag.ErrHelp, or says which flag is wrong. It names an unknown
// flag only if the name cannot be a secret. The flags before the wrong one have then been set.
func ParseFlags(f *flag.FlagSet, args []string) (words []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return append(words, args...), nil
		}
		if !IsFlag(arg) {
			words = append(words, arg)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		known := f.Lookup(name)
		switch {
		case known == nil && (name == "help" || name == "h"):
			return nil, flag.ErrHelp
		case known == nil:
			return nil, unknownFlag(f, name)
		case given:
		case IsSwitch(known):
			value = "true"
		case len(args) == 0:
			return nil, fmt.Errorf("--%s needs a value", name)
		default:
			value, args = args[0], args[1:]
		}
		if err := f.Set(name, value); err != nil {
			return nil, fmt.Errorf("--%s %q: %w", name, value, explain(known, err))
		}
	}
	return words, nil
}

// IsFlag reports whether an argument is a flag. A single dash, which means standard input or output, and a
// negative number are not.
func IsFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !strings.ContainsRune(".0123456789", rune(arg[1]))
}

// IsSwitch reports whether a flag needs no value.
func IsSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// unknownFlag returns the error for an unknown flag, which suggests a similar one.
func unknownFlag(f *flag.FlagSet, name string) error {
	const longest = 40
	if len(name) > longest || strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) {
		return fmt.Errorf("unknown flag, not shown because it may be a secret")
	}
	var names []string
	f.VisitAll(func(fl *flag.Flag) { names = append(names, "--"+fl.Name) })
	return fmt.Errorf("unknown flag --%s%s", name, Suggest("--"+name, names))
}

// explain returns an error that says what the value of a flag must be, if the error of package flag does not.
func explain(f *flag.Flag, err error) error {
	getter, ok := f.Value.(flag.Getter)
	if !ok {
		return err
	}
	switch getter.Get().(type) {
	case bool:
		return fmt.Errorf("must be true or false")
	case int, int64, uint64:
		return fmt.Errorf("must be a whole number, at most %d", math.MaxInt)
	case time.Duration:
		return fmt.Errorf("must be a duration, such as 30s")
	}
	return err
}

// PrintFlags prints flags for --help: those for which the function which returns true, or all if it is nil.
func PrintFlags(w io.Writer, f *flag.FlagSet, which func(*flag.Flag) bool) {
	f.VisitAll(func(fl *flag.Flag) {
		if which != nil && !which(fl) {
			return
		}
		name, text := FlagText(fl)
		fmt.Fprintf(w, "  --%s\n%s\n", name, indent(text))
	})
}

// FlagText returns a flag with the name of its value, such as "max-frame BYTES", and its help text followed
// by its default.
func FlagText(f *flag.Flag) (name, text string) {
	value, text := flag.UnquoteUsage(f)
	name = f.Name
	if value != "" && !IsSwitch(f) {
		name += " " + strings.ToUpper(value)
	}
	if slices.Contains([]string{"", "0", "0s", "false"}, f.DefValue) {
		return name, text
	}
	return name, text + " (default " + f.DefValue + ")"
}

// helpWidth is the width of the lines of help.
const helpWidth = 96

// indent wraps and indents a text for help.
func indent(text string) string {
	const margin = "        "
	var b strings.Builder
	line := margin[:len(margin)-1]
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > helpWidth {
			b.WriteString(line + "\n")
			line = margin[:len(margin)-1]
		}
		line += " " + word
	}
	return b.String() + line
}
