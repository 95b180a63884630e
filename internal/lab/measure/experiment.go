package measure

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
)

// Bounds and times of experiments.
const (
	experimentRequestsMax = 1_000_000

	// experimentAccounts is how many account ids are reserved for a run.
	experimentAccounts = 50_000

	// experimentEcho is how long an echo server is measured, except in experiments with a new connection for
	// each request.
	experimentEcho = 2 * time.Second
)

// Experiments returns the names of the experiments that work with any server: those listed before market.
func Experiments() (names []string) {
	for _, s := range scenario.All() {
		if s.Name == "market" {
			break
		}
		names = append(names, s.Name)
	}
	return names
}

// firstOfExperiment returns the first account id of a run that starts now. It is below 2^31, and differs from
// those of runs that start up to half a minute later, unless both start in the same millisecond.
func firstOfExperiment(now time.Time) uint64 {
	return uint64(now.UnixMilli()%40_000+1) * experimentAccounts
}

// checkExperiment returns an error that names the first flag that an experiment does not support.
func (o *Options) checkExperiment() error {
	switch {
	case !slices.Contains(Experiments(), o.Experiment):
		return fmt.Errorf("--experiment %q: must be one of %s", o.Experiment,
			strings.Join(Experiments(), ", "))
	case o.Rate > 0:
		return fmt.Errorf("--rate %d: an experiment has no rate", o.Rate)
	case o.DepthGiven && o.Depth > 1:
		return fmt.Errorf("--depth %d: an experiment has a depth of 1", o.Depth)
	case o.Requests < 0 || o.Requests > experimentRequestsMax:
		return fmt.Errorf("--requests %d: must be from 0 to %d", o.Requests, experimentRequestsMax)
	}
	return nil
}

// unit returns the unit that the rate counts.
func (p *comparison) unit() string {
	if p.Experiment != "" {
		return "requests/s"
	}
	return "orders/s"
}

// connections returns the number of concurrent connections.
func (p *comparison) connections() int {
	if e, ok := p.rows[0].load.(*experiment); ok {
		return e.params.Clients
	}
	return p.Connections
}

// experiment is a workload published for an earlier system.
type experiment struct {
	scenario scenario.Scenario
	params   scenario.Params
	addrs    []string
	how      load.Options  // the server's habits and the token
	first    int           // first account id of the next turn
	like     *experiment   // experiment whose requests are sent to the echo server
	run      *scenario.Run // run of the current turn
	last     *load.Result
}

// newExperiment returns the experiment of the command line, for a server at addrs.
func (p *comparison) newExperiment(addrs []string, how load.Options) *experiment {
	s, _ := scenario.Find(p.Experiment) // check has validated the name
	e := &experiment{scenario: s, params: s.Defaults, addrs: addrs, how: how,
		first: int(p.first) + accountsEach}
	if p.ConnectionsGiven {
		e.params.Clients = p.Connections
	}
	if p.Requests > 0 {
		e.params.Requests = p.Requests
	}
	if e.like = e; len(p.rows) > 0 {
		e.like = p.rows[0].load.(*experiment)
	}
	return e
}

// Prepare implements workload. It does nothing, because begin prepares each turn.
func (e *experiment) Prepare(context.Context) error { return nil }

// begin creates accounts, symbols and open orders for one turn. No other turn uses them, and they are not
// removed afterwards. The error says what was refused, or why there was no reply.
func (e *experiment) begin(ctx context.Context) error {
	e.run = &scenario.Run{Addrs: e.addrs, Seed: 1, Params: e.params, How: e.how, Any: true, First: e.first,
		Tag: "X" + strings.ToUpper(strconv.FormatInt(int64(e.first), 36)) + "X"}
	e.first += e.params.Clients*(e.params.Requests+1) + e.params.Accounts
	return e.scenario.Prepare(ctx, e.run)
}

// Run implements workload by measuring the current turn.
func (e *experiment) Run(ctx context.Context) (*load.Result, error) {
	result, err := e.scenario.Measure(ctx, e.run)
	e.last = result
	return result, err
}

// Blank implements workload. It returns an error if the measured server has not answered anything yet.
func (e *experiment) Blank(ctx context.Context, addr string) (*load.Result, error) {
	if e.like.last == nil {
		return nil, fmt.Errorf("%s cannot run, as the server has not answered any request", e.scenario.Name)
	}
	run := &scenario.Run{Addrs: []string{addr}, Params: e.params, How: e.how}
	return e.scenario.Echo(ctx, run, e.like.last, experimentEcho)
}

// Check implements workload. It sends nothing, because an experiment checks replies as they arrive.
func (e *experiment) Check(context.Context) (*load.Checked, error) {
	c := new(load.Checked)
	if e.run != nil {
		c.Opened = e.run.Answers().Accepted
	}
	return c, nil
}
