package anchors

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/postgres/local"
	"outcry/internal/testing/processes"
)

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

func startOutcry(ctx context.Context, program, dir string) (server, error) {
	data := filepath.Join(dir, "data")
	s, err := harness.Launch(harness.ServerOptions{Program: program, Data: data})
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
		Options: load.Options{Addrs: []string{s.XML}, Connections: connectionsMax}}
	if err := o.plain.Prepare(ctx); err != nil {
		o.stop()
		return nil, err
	}
	return o, o.settle(ctx)
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
	if have.Orders != writes {
		return fmt.Errorf("the tables have %d orders, the answers say %d", have.Orders, writes)
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
