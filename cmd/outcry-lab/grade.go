package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/grade"
	reports "outcry/internal/lab/grade/report"
	"outcry/internal/lab/grade/target"
	"outcry/internal/lab/printable"
	"outcry/internal/operate/settings"
	"outcry/internal/process/phrase"
	"outcry/internal/process/progress"
)

const gradeText = `Plays some hundred cases of the protocol (docs/PROTOCOL.md, part one) against a server in
any language, and reports for each failure which rule is broken, what was sent, what was received, and
what was expected. First it finds out how the server deviates (an attribute account, replies without
a length, one frame per connection, …); a deviation costs only the case that is about it.

The server runs already (--addr), or the program starts and kills it (--start, --compose), which the
cases of durability need. A server started by --start must listen at the port in PORT; with --addr it
listens there, whatever PORT says. It gets a clean environment and limits of memory, processes and
files; if the program runs as root, the server runs as --user. On Linux, none of its processes survive.

The exit status is 0 if the server was graded, 1 if the score is below --require, 2 for a wrong
command line, profile or case, and 3 if the server never accepted a connection: its score is 0.`

// grading holds the flags of the command grade.
type grading struct {
	addr, start, compose, service, user string
	files                               reports.Files
	zip                                 string
	profile, cases, many, csv           string
	seed                                uint64
	seconds                             int
	require                             float64
	load                                bool
	stdout, stderr                      io.Writer
	flags                               *flag.FlagSet
}

// given reports whether a flag was given.
func (g *grading) given(name string) bool { return cli.IsGiven(g.flags, name) }

// ownAddr replaces the common flag --addr by the command's own.
func ownAddr(f *flag.FlagSet, value *string) {
	own := flag.NewFlagSet("", flag.ContinueOnError)
	own.StringVar(value, "addr", "", "`address` of the server, HOST or HOST:PORT; with --start, where it will listen")
	*f.Lookup("addr") = *own.Lookup("addr")
}

// prepareGrade declares the flags of the command grade and returns the function that runs it.
func prepareGrade(f *flag.FlagSet, c *cli.Client) func([]string) error {
	g := &grading{stdout: c.Stdout, stderr: c.Stderr, flags: f}
	ownAddr(f, &g.addr)
	f.StringVar(&g.start, "start", "", "`command` that starts the server, for /bin/sh, with PORT in its environment")
	f.StringVar(&g.user, "user", "",
		"`name` or number of the user that runs it, if outcry runs as root; nobody if left out")
	f.StringVar(&g.compose, "compose", "", "Compose `file` with the server")
	f.StringVar(&g.service, "service", "", "`name` of its service in the Compose file")
	f.StringVar(&g.many, "many", "",
		"grade the server of each folder in this `directory`, whose grade.sh starts it, one after another; "+
			"those already in --csv are skipped")
	f.StringVar(&g.csv, "csv", "", "`file` for the scores of --many, a line for each group, and one for the total")
	f.StringVar(&g.files.JSON, "json", "", "write the result to this `file` as JSON")
	f.StringVar(&g.files.HTML, "html", "", "write an HTML page to this `file`")
	f.StringVar(&g.files.JUnit, "junit", "", "write JUnit's XML to this `file`, with a suite for each group")
	f.StringVar(&g.files.Gradescope, "gradescope", "", "write Gradescope's results.json to this `file`")
	f.StringVar(&g.zip, "gradescope-zip", "",
		"do not grade, but write an autograder for Gradescope to this `file`, which runs grade with the flags "+
			"given here")
	f.StringVar(&g.profile, "profile", "", "`file` in TOML with weights, times and the habits of a class's servers")
	f.StringVar(&g.cases, "cases", "", "`directory` with cases to add; they replace those of the same name")
	f.Uint64Var(&g.seed, "seed", 1, "seed of the random orders; overrides the profile's")
	f.IntVar(&g.seconds, "time", 180, "limit in `seconds` for the run, from when the server is ready; overrides the "+
		"profile's")
	f.Float64Var(&g.require, "require", 0, "least `score` for an exit status of 0")
	f.BoolVar(&g.load, "load", false, "measure the throughput too, as a share of an echo server's on this machine")
	return func([]string) error {
		if err := g.check(); err != nil {
			return err
		}
		return g.run()
	}
}

// check returns a *cli.UsageError if the flags contradict each other.
func (g *grading) check() error {
	servers := 0
	for _, name := range []string{"start", "compose", "many"} {
		if g.given(name) {
			servers++
		}
	}
	if err := g.checkGiven(); err != nil {
		return err
	}
	switch {
	case servers > 1:
		return cli.Usage("only one of --start, --compose and --many can be given")
	case g.zip != "" && g.start == "":
		return cli.Usage("--gradescope-zip needs --start, the command that starts a submission's server")
	case g.zip != "" && len(g.uncarried()) > 0:
		return cli.Usage("--gradescope-zip cannot have --" + strings.Join(g.uncarried(), " and --"))
	case servers == 0 && g.addr == "":
		return cli.Usage("no server is named: --addr, --start, --compose or --many is needed")
	case (g.compose == "") != (g.service == ""):
		return cli.Usage("--compose and --service must be given together")
	case (g.many == "") != (g.csv == ""):
		return cli.Usage("--many and --csv must be given together")
	case g.many != "" && g.addr != "":
		return cli.Usage("--many cannot have --addr: each grade.sh listens at PORT")
	case g.many != "" && (g.files != reports.Files{} || g.given("require")):
		return cli.Usage("--many cannot have --json, --html, --junit, --gradescope or --require")
	case g.user != "" && g.start == "" && g.many == "":
		return cli.Usage("--user is for --start and --many")
	case math.IsNaN(g.require) || g.require < 0:
		return cli.Usage(fmt.Sprintf("--require %v: must be a score of 0 or more", g.require))
	case g.given("time") && (g.seconds < 1 || g.seconds > int(grade.TimeMax.Seconds())):
		return cli.Usage(fmt.Sprintf("--time %d: must be from 1 to %d", g.seconds, int(grade.TimeMax.Seconds())))
	case g.addr != "":
		addr, err := settings.Address(g.addr, settings.PortXML)
		if err != nil {
			return cli.Usage("--addr: " + err.Error())
		}
		g.addr = addr
	}
	return nil
}

// checkGiven returns a *cli.UsageError if a flag is given with an empty value.
func (g *grading) checkGiven() error {
	for name, value := range map[string]string{"addr": g.addr, "start": g.start, "compose": g.compose,
		"service": g.service, "user": g.user, "many": g.many, "csv": g.csv, "json": g.files.JSON, "html": g.files.HTML,
		"junit": g.files.JUnit, "gradescope": g.files.Gradescope, "gradescope-zip": g.zip, "profile": g.profile,
		"cases": g.cases} {
		if g.given(name) && value == "" {
			return cli.Usage(fmt.Sprintf("--%s is empty", name))
		}
	}
	return nil
}

// run grades one server or many, or writes the autograder, as the flags say.
func (g *grading) run() error {
	o, err := g.options()
	if err == nil {
		err = g.resolve()
	}
	if err != nil {
		return cli.Usage(err.Error())
	}
	if g.zip != "" {
		return g.writeZip()
	}
	if g.many != "" {
		return g.runMany(o)
	}
	if o.Target, err = g.target(); err != nil {
		return cli.Usage(err.Error())
	}
	return g.one(o)
}

// options reads the files that the flags name. The error names the flag and what is wrong with its file.
func (g *grading) options() (o grade.Options, err error) {
	if o, err = grade.ReadOptions(g.profile, g.cases); err != nil {
		return o, err
	}
	if g.given("seed") {
		o.Profile.Seed = g.seed
	}
	if g.given("time") {
		o.Profile.Time = time.Duration(g.seconds) * time.Second
	}
	o.Load = g.load
	return o, nil
}

// resolve resolves the links in the paths of output files once, before a server runs, because the server could
// change the links.
func (g *grading) resolve() error {
	for _, f := range []struct {
		flag string
		path *string
	}{{"csv", &g.csv}, {"json", &g.files.JSON}, {"html", &g.files.HTML}, {"junit", &g.files.JUnit},
		{"gradescope", &g.files.Gradescope},
		{"gradescope-zip", &g.zip}} {
		if *f.path == "" {
			continue
		}
		path, err := target.Resolve(*f.path)
		if err != nil {
			return fmt.Errorf("--%s: %w", f.flag, err)
		}
		*f.path = path
	}
	return nil
}

// starts returns the options for every server that is started by a command.
func (g *grading) starts() target.Options {
	o := target.Options{Command: g.start, Addr: g.addr, User: g.user, Results: g.files.Names()}
	if g.cases != "" {
		o.Hidden = []string{g.cases}
	}
	return o
}

// target returns the server to grade.
func (g *grading) target() (target.Target, error) {
	switch {
	case g.start != "":
		return target.Command(g.starts())
	case g.compose != "":
		return target.Compose(g.compose, g.service, g.addr)
	}
	return target.Attached(g.addr)
}

// one grades the server that the flags name.
func (g *grading) one(o grade.Options) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	line := progress.Start(g.stderr)
	line.Say("the server is started")
	o.Progress = func(p grade.Progress) { line.Say(p.String()) }
	result, err := grade.Run(ctx, o)
	line.Stop()
	if result == nil {
		return cli.Unchecked(err)
	}
	err = errors.Join(reports.WriteText(g.stdout, result), g.files.Write(result), err)
	switch {
	case errors.Is(err, grade.ErrNothingAccepts):
		return cli.NoAnswer(err)
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case g.given("require") && result.Score < g.require:
		fmt.Fprintf(g.stderr, "outcry-lab: the score %.2f is below --require %v\n", result.Score, g.require)
		return cli.ErrBad
	}
	return nil
}

// Flags that work with --gradescope-zip: madeOf determine the autograder's content, and carried are passed on
// to its grade command.
var (
	madeOf  = []string{"gradescope-zip", "start", "profile", "cases"}
	carried = []string{"addr", "load", "seed", "time", "user"}
)

// uncarried returns the given flags that do not work with --gradescope-zip.
func (g *grading) uncarried() (names []string) {
	g.flags.Visit(func(f *flag.Flag) {
		if !slices.Contains(madeOf, f.Name) && !slices.Contains(carried, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// writeZip writes the autograder.
func (g *grading) writeZip() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	a := reports.Autograder{Program: program, Start: g.start, Profile: g.profile, Cases: g.cases}
	for _, name := range carried {
		if f := g.flags.Lookup(name); g.given(name) {
			a.Options = append(a.Options, "--"+name+"="+f.Value.String())
		}
	}
	return reports.Save(g.zip, func(w io.Writer) error { return reports.WriteGradescopeZip(w, a) })
}

// runMany grades the servers of a directory.
func (g *grading) runMany(o grade.Options) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	line := progress.Start(g.stderr)
	defer line.Stop()
	folder := ""
	o.Progress = func(p grade.Progress) { line.Say(folder + ": " + p.String()) }
	s, err := grade.Many(ctx, grade.ManyOptions{Dir: g.many, CSV: g.csv, Server: g.starts(), Run: o,
		Begin: func(name string, n, of int) {
			folder = fmt.Sprintf("%d of %d, %s", n, of, printable.Text(name))
			line.Say(folder + " is started")
		},
		Each: func(name string, r *grade.Result, note string) error {
			line.Say("")
			_, err := fmt.Fprintf(g.stdout, "%7.2f  %s\n%s", r.Score, printable.Text(name), indented(note))
			return err
		}})
	line.Stop()
	for _, name := range s.Without {
		fmt.Fprintf(g.stderr, "outcry-lab: %s has no grade.sh\n", printable.Text(name))
	}
	if s.Before > 0 {
		fmt.Fprintf(g.stderr, "outcry-lab: %s is already in %s\n", phrase.Number(s.Before, "server"), g.csv)
	}
	if errors.Is(err, target.ErrNotTried) {
		return cli.Unchecked(err)
	}
	return err
}

// indented returns a note as a line below a score, or "" for an empty note.
func indented(note string) string {
	if note == "" {
		return ""
	}
	return "         " + strings.ReplaceAll(strings.TrimSpace(printable.Text(note)), "\n", "\n         ") + "\n"
}
