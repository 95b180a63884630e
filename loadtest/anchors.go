package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/bench"
	"outcry/internal/lab/harness"
)

// runAnchors measures well-known servers side by side with this exchange.
func runAnchors(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := anchors.Options{Out: stderr, Command: "go run ./loadtest anchors " + strings.Join(args, " ")}
	f := newFlags("anchors", stderr)
	number(f, &o.Rounds, "rounds", 5, 1, 100, "how often each server is measured")
	f.DurationVar(&o.Duration, "duration", 2*time.Second, "how long each is measured")
	at := f.String("at", "64x1,64x16", "`loads`: connections x unanswered requests on each, comma-separated")
	only := f.String("only", "", "`servers`: redis, echo, postgres, etcd, nats, outcry; empty for all that are installed")
	servers := f.String("server", "", "`programs` of outcryd, comma-separated; empty to build the repository's")
	f.StringVar(&o.Dir, "dir", "", "`directory` on the disk that is measured; empty for that of temporary files")
	f.Float64Var(&o.Rate, "rate", 0, "`requests` a second, 0 for as many as possible; "+
		"latency counts from when a request is due")
	f.Float64Var(&o.Share, "share", 0, "also measure each server at this share of its rate, such as 0.5")
	f.StringVar(&o.Of, "of", "", "`server` whose rate -share refers to, at loads of one request; empty for each one's own")
	data := f.String("data", "", "`file` for the results, as JSON")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if o.Duration < 100*time.Millisecond || o.Duration > time.Hour {
		return fmt.Errorf("%w: -duration %s: must be from 100ms to 1h", errUsage, o.Duration)
	}
	if o.Share < 0 || o.Share > 1 || o.Rate < 0 || o.Rate > 1e7 {
		return fmt.Errorf("%w: -share must be from 0 to 1, -rate from 0 to 10,000,000", errUsage)
	}
	for text := range strings.SplitSeq(*at, ",") {
		shape, err := anchors.ParseShape(text)
		if err != nil {
			return fmt.Errorf("%w: -at: %w", errUsage, err)
		}
		o.At = append(o.At, shape)
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Echo = []string{self, "echo"}
	if *servers != "" {
		o.Servers = strings.Split(*servers, ",")
	} else {
		dir, err := os.MkdirTemp("", "outcry-anchors-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		root, err := harness.Root(ctx)
		if err != nil {
			return err
		}
		program, err := harness.Build(ctx, root, "./cmd/outcryd", dir)
		if err != nil {
			return err
		}
		o.Servers = []string{program}
	}
	r, err := anchors.Run(ctx, o)
	if r == nil || err != nil {
		return err
	}
	r.Write(stdout)
	return writeData(*data, r)
}

// writeData writes a report to a file as JSON, if the file has a name.
func writeData(file string, report any) error {
	if file == "" {
		return nil
	}
	return bench.WriteFile(file, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(report)
	})
}
