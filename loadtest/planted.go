package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"outcry/loadtest/mutation"
)

func runPlanted(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("planted", flag.ContinueOnError)
	f.SetOutput(stderr)
	seed := f.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the torture runs")
	verbose := f.Bool("v", false, "show the rounds of the torture runs")
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest planted [flags] [bug …]\n\nBugs, all unless named:")
		for _, b := range mutation.Bugs() {
			fmt.Fprintf(stderr, "  %-22s %s\n", b.Name, b.Promise)
		}
		fmt.Fprintln(stderr, "\nFlags:")
		f.PrintDefaults()
	}
	if err := parse(f, args); err != nil {
		return err
	}
	bugs := mutation.Bugs()
	if f.NArg() > 0 {
		bugs = nil
	}
	for _, name := range f.Args() {
		b, ok := mutation.Find(name)
		if !ok {
			return fmt.Errorf("%w: there is no bug %q (-help lists them)", errUsage, name)
		}
		bugs = append(bugs, b)
	}
	rounds := io.Discard
	if *verbose {
		rounds = stdout
	}
	fmt.Fprintf(stdout, "seed %d\n", *seed)
	var missed []error
	for _, b := range bugs {
		caught, err := try(ctx, b, *seed, rounds)
		if err != nil {
			missed = append(missed, err)
			caught = err.Error()
		}
		fmt.Fprintf(stdout, "%-22s %s\n", b.Name, strings.ReplaceAll(caught, "\n", " "))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(missed) > 0 {
		return errors.Join(missed...)
	}
	fmt.Fprintf(stdout, "PASS: %d planted bugs, each caught\n", len(bugs))
	return nil
}

// try tries a bug in a directory of its own, which goes again.
func try(ctx context.Context, b mutation.Bug, seed uint64, rounds io.Writer) (caught string, err error) {
	dir, err := os.MkdirTemp("", "outcry-planted-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	return b.Try(ctx, seed, filepath.Join(dir, "run"), rounds)
}
