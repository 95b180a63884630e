package anchors

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/postgres/local"
	"outcry/internal/testing/processes"
)

// freshMax is how long Fresh may take, in addition to the time of the measurement.
const freshMax = 5 * time.Minute

// Fresh starts an Outcry in an empty directory below dir, measures it once at full speed with one symbol for each
// connection, checks that its tables have every order, and ends it. It works with every version of the program. The
// processor time of the Point includes all work until Postgres has every record. It returns an error if a step fails,
// a reply is wrong or an order is missing.
func Fresh(ctx context.Context, program, dir string, at Shape, duration time.Duration) (*Point, error) {
	ctx, cancel := context.WithTimeout(ctx, duration+freshMax)
	defer cancel()
	dir, err := os.MkdirTemp(dir, "outcry-")
	if err != nil {
		return nil, fmt.Errorf("anchors: %w", err)
	}
	defer os.RemoveAll(dir)
	o, err := startOutcry(ctx, program, dir, true)
	if err != nil {
		return nil, fmt.Errorf("anchors: start outcry: %w", err)
	}
	defer o.stop()
	s := &running{anchor: anchor{name: "outcry"}, server: o}
	p, err := s.once(ctx, Options{Duration: duration}, at, 0)
	if err != nil {
		return nil, err
	}
	if err := o.listed(ctx, s.writes); err != nil {
		return nil, fmt.Errorf("anchors: outcry: %w", err)
	}
	return p, nil
}

// listed returns an error unless the relation public.orders, which every version has, lists this many orders.
func (o *outcry) listed(ctx context.Context, writes uint64) error {
	url, err := local.RunningURL(o.cluster)
	if err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	var have uint64
	if err := db.QueryRow(ctx, "SELECT count(*) FROM public.orders").Scan(&have); err != nil {
		return err
	}
	return compared(have, writes)
}

// compared returns an error unless the tables have as many orders as the answers say.
func compared(have, writes uint64) error {
	if have != writes {
		return fmt.Errorf("the tables have %d orders, the answers say %d", have, writes)
	}
	return nil
}

// outcry is an Outcry in its default configuration, with the Postgres that it starts itself.
type outcry struct {
	*harness.Server
	plain    *load.Plain
	cluster  string // data directory of its Postgres
	postgres int    // process id of its Postgres
}

// symbols is the number of symbols traded.
const symbols = 10

// firstAccount is an account id that no scenario uses.
const firstAccount = 2_000_000_000

// startOutcry starts an Outcry below dir and opens the accounts of its load.
func startOutcry(ctx context.Context, program, dir string, oneSymbol bool) (*outcry, error) {
	xml, err := freeAddr()
	if err != nil {
		return nil, err
	}
	http, err := freeAddr(xml)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	s, err := harness.Launch(harness.ServerOptions{Program: program, Data: data,
		Flags: []string{"--listen=" + xml, "--http=" + http}})
	if err != nil {
		return nil, err
	}
	o := &outcry{Server: s, cluster: filepath.Join(data, "postgres")}
	ready, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.WaitReady(ready); err != nil {
		o.stop()
		return nil, err
	}
	for _, pid := range processes.Children(s.Pid()) {
		o.postgres = pid
	}
	o.plain = &load.Plain{Symbols: symbols, Orders: math.MaxUint64, First: firstAccount, Tag: "ANCHOR",
		OneSymbol: oneSymbol, Options: load.Options{Addrs: []string{s.XML}, Connections: connectionsMax}}
	if err := o.plain.Prepare(ctx); err != nil {
		o.stop()
		return nil, err
	}
	if err := o.settle(ctx); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

func (o *outcry) measure(ctx context.Context, how load.Options, rate float64) (*load.Result, error) {
	how.Addrs = o.plain.Addrs
	o.plain.Options, o.plain.Rate = how, int(rate)
	return o.plain.Run(ctx)
}

// settle implements server. It waits until Postgres has every record.
func (o *outcry) settle(ctx context.Context) error { return o.CatchUp(ctx, settleMax) }

func (o *outcry) used() (own, postgres time.Duration) {
	u, _ := o.Usage() // no usage if the server has ended
	return u.CPU, processes.FamilyCPU(o.postgres)
}

// check implements server. The tables must contain every order, cash and shares must add up, and the
// exchange must know the orders by the ids it gave.
func (o *outcry) check(ctx context.Context, writes uint64) error {
	url, err := local.RunningURL(o.cluster)
	if err != nil {
		return err
	}
	have, err := audit.ReadTotals(ctx, url, "")
	if err != nil {
		return err
	}
	if err := compared(have.Orders, writes); err != nil {
		return err
	}
	c, err := o.plain.Check(ctx)
	switch {
	case err != nil:
		return err
	case !c.OK():
		return fmt.Errorf("of %d orders %d are lost, %d wrong, %d doubled: %s", c.Asked, c.Lost, c.Wrong, c.Doubled,
			c.Example)
	}
	return nil
}

// stopTimeout is how long an orderly stop, including Postgres, may take.
const stopTimeout = time.Minute

func (o *outcry) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if o.Server.Stop(ctx) != nil {
		o.Kill() // its Postgres ends, too
	}
	_ = local.Remove(o.cluster)
}
