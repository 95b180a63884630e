package torture

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
)

// Dust: more sell orders of the smallest fraction of a share than one record can hold. An order that meets all of
// them must execute in price-time order, and in the meantime, queries of the symbol, creates and cancel-alls must
// get their answers. The tables show whether the order was executed correctly (truth.go).

const (
	dustSmall, dustLarge     = 16_000, 1_600_000
	dustSegment              = 1 << 20   // a record in such a journal covers only a part of a small attack
	takersSmall, takersLarge = 20, 3_000 // orders in a frame, each large enough for all the dust
	dustStop                 = 5         // --stop-timeout in seconds

	dustRestSmall, dustRestLarge = 200 * time.Millisecond, 10 * time.Second // how long to probe before the dust is met
	// stopGrace is how much longer than --stop-timeout a stop may take on a busy machine.
	stopGrace = 25 * time.Second
)

var (
	dust = audit.BulkOrder{Account: abuserName, Sym: abuseSym, Amount: "-0.00000001", Limit: "0.01"}
	take = audit.BulkOrder{Account: takerName, Sym: abuseSym, Amount: "1", Limit: "0.01"}
)

// layDust places the dust. It returns the id of the oldest dust order, and a connection for the orders
// that meet the dust.
func (s *server) layDust(ctx context.Context) (first uint64, l *audit.Line, err error) {
	n := s.size(dustSmall, dustLarge)
	ids, refusal, err := s.PlaceMany(ctx, s.abuser, dust, n)
	switch {
	case err != nil:
		return 0, nil, err
	case len(ids) < n:
		return 0, nil, fmt.Errorf("only %d of %d dust orders were placed: %s", len(ids), n, refusal)
	}
	l, err = audit.DialLine(ctx, s.abuser)
	return ids[0], l, err
}

// abuseDust sends a frame of orders that meet all the dust, and probes operations that must not wait.
func (s *server) abuseDust(ctx context.Context) error {
	first, l, err := s.layDust(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	s.abuseReport().Probes["traders, while it is placed"] = waits(s.CutPace())
	over, end := context.WithCancel(ctx)
	probed := make(chan error, 1)
	go func() { probed <- s.probe(ctx, first, over) }()
	err = wait(ctx, time.Duration(s.size(int(dustRestSmall), int(dustRestLarge))))
	begun, takers := time.Now(), s.size(takersSmall, takersLarge)
	err = errors.Join(err, l.Send(s.BulkFrame(take, takers)))
	var answers []wire.Answer
	if err == nil {
		answers, err = l.Reply(audit.BulkReplyMax)
	}
	end()
	if err = errors.Join(err, <-probed); err != nil {
		return err
	}
	s.summarize("%d orders of dust, a frame of %d orders that match them: %.1f ms", s.size(dustSmall, dustLarge), takers,
		millis(int64(time.Since(begun))))
	ids, refusal := s.BulkAnswered(answers)
	if len(ids) != takers {
		return fmt.Errorf("%d of %d orders that match the dust are accepted: %s", len(ids), takers, refusal)
	}
	return nil
}

// probe repeatedly queries an order of the symbol, creates accounts, and cancels all orders of an account that has
// none, until over ends. It returns an error if a request fails, and records the durations.
func (s *server) probe(ctx context.Context, dustID uint64, over context.Context) error {
	made := 0
	account := func(n int) string { return fmt.Sprintf("7%09d", n) }
	times, err := audit.Probe(over, map[string]func() error{
		"query": func() error {
			return audit.Expect(ctx, s.At, "status", wire.NewTransactions(abuserName).Query(fmt.Sprint(dustID)).Append(nil))
		},
		"create": func() error {
			made++
			c := new(wire.Create).Account(wire.Account{ID: account(made), Balance: "1"})
			return audit.Expect(ctx, s.At, "created", c.Append(nil))
		},
		"cancel-all": func() error {
			return s.must(ctx, "/admin/cancel-all?account="+idleName, s.token, "")
		},
	})
	for name, t := range times {
		s.abuseReport().Probes[name] = waits(t)
	}
	for n := range made {
		s.Opened(account(n+1), 1)
	}
	return err
}

// must sends a POST request to the HTTP port and checks that the answer is OK.
func (s *server) must(ctx context.Context, path, token, body string) error {
	status, answer, err := s.server.Ask(ctx, http.MethodPost, path, token, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s is answered with status %d: %s", path, status, answer)
	}
	return err
}

// abuseStop stops the exchange while a frame meets the dust.
func (s *server) abuseStop(ctx context.Context) error {
	_, l, err := s.layDust(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Send(s.BulkFrame(take, s.size(takersSmall, takersLarge))); err != nil {
		return err
	}
	if err := s.keepTrading(ctx); err != nil {
		return err
	}
	s.End.MayBeGone.Store(true)
	stop, cancel := context.WithTimeout(ctx, dustStop*time.Second+stopGrace)
	defer cancel()
	begun := time.Now()
	err = s.server.Stop(stop)
	s.summarize("a stop while a frame matches %d orders of dust: %.1f ms", s.size(dustSmall, dustLarge),
		millis(int64(time.Since(begun))))
	if stop.Err() != nil {
		s.server.Kill()
		return err
	}
	return nil // any status is fine: records that the tables lack are in the journal, and are added at the next start
}
