package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"outcry/internal/lab/grade/faulty"
)

// runFaulty serves an exchange with deliberate faults until ctx ends.
func runFaulty(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("faulty", stderr)
	addr := f.String("listen", "127.0.0.1:"+os.Getenv("PORT"), "`address`; the PORT of the environment if left out")
	names := make([]string, len(faulty.Faults))
	for i, fault := range faulty.Faults {
		names[i] = fault.Name
	}
	var o faulty.Options
	f.Func("faults", "comma-separated `names`, of "+strings.Join(names, ", "), func(text string) error {
		o.Faults = strings.Split(text, ",")
		return nil
	})
	if err := parse(f, args, 0); err != nil {
		return err
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	fmt.Fprintln(stdout, "it listens on", l.Addr())
	return faulty.Serve(l, o)
}
