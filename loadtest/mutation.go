package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outcry/loadtest/mutation"
)

func runMutation(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("mutation", flag.ContinueOnError)
	f.SetOutput(stderr)
	seed := f.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the torture runs")
	verbose := f.Bool("v", false, "show the rounds of the torture runs")
	all, err := mutation.All()
	if err != nil {
		return err
	}
	f.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run ./loadtest mutation [flags] [mutation …]\n\nMutations, all unless named:")
		for _, m := range all {
			fmt.Fprintf(stderr, "  %-22s %s\n", m.Name, m.Promise)
		}
		fmt.Fprintln(stderr, "\nFlags:")
		f.PrintDefaults()
	}
	if err := parse(f, args); err != nil {
		return err
	}
	tried := all
	if f.NArg() > 0 {
		tried = nil
	}
	for _, name := range f.Args() {
		at := slices.IndexFunc(all, func(m mutation.Mutation) bool { return m.Name == name })
		if at < 0 {
			return fmt.Errorf("%w: there is no mutation %q (-help lists them)", errUsage, name)
		}
		tried = append(tried, all[at])
	}
	rounds := io.Discard
	if *verbose {
		rounds = stdout
	}
	fmt.Fprintf(stdout, "seed %d\n", *seed)
	var missed []error
	for _, m := range tried {
		caught, err := try(ctx, m, *seed, rounds)
		if err != nil {
			missed = append(missed, err)
			caught = err.Error()
		}
		fmt.Fprintf(stdout, "%-22s %s\n", m.Name, strings.ReplaceAll(caught, "\n", " "))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(missed) > 0 {
		return errors.Join(missed...)
	}
	fmt.Fprintf(stdout, "PASS: %d mutations, each caught\n", len(tried))
	return nil
}

// try tries a mutation in a directory of its own, which goes again.
func try(ctx context.Context, m mutation.Mutation, seed uint64, rounds io.Writer) (caught string, err error) {
	dir, err := os.MkdirTemp("", "outcry-mutation-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	return m.Try(ctx, seed, filepath.Join(dir, "run"), rounds)
}
