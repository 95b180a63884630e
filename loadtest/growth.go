package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"outcry/loadtest/growth"
)

func runGrowth(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := growth.Options{Out: stdout}
	f := flag.NewFlagSet("growth", flag.ContinueOnError)
	f.SetOutput(stderr)
	marks := f.String("orders", "1000000,2000000,5000000", "`numbers` of orders at which to look, comma-separated, rising")
	f.IntVar(&o.Clients, "clients", 32, "`connections` that trade")
	f.StringVar(&o.Dir, "dir", "", "`directory` for data and logs, which stays; empty for a temporary one")
	report := f.String("json", "", "`file` that the report is written to")
	if err := parse(f, args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	if o.Clients < 1 || o.Clients > 1000 {
		return fmt.Errorf("%w: -clients %d: must be from 1 to 1000", errUsage, o.Clients)
	}
	for text := range strings.SplitSeq(*marks, ",") {
		mark, err := strconv.ParseInt(text, 10, 64)
		if err != nil || mark < 1 || len(o.Marks) > 0 && mark <= o.Marks[len(o.Marks)-1] {
			return fmt.Errorf("%w: -orders: %q is not a number that rises", errUsage, text)
		}
		o.Marks = append(o.Marks, mark)
	}
	result, err := growth.Run(ctx, o)
	if err == nil && *report != "" {
		err = writeReport(*report, result)
	}
	return err
}
