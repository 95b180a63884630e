package door

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

var background = context.Background()

// callable returns a server without listeners. It asserts at the end of the test that the server holds
// nothing.
func callable(t *testing.T, x Exchange, o Options) *Server {
	t.Helper()
	s := New(x, o)
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(background))
		requireNothingHeld(t, s)
		require.True(t, s.answering.TryAcquire(answersMax), "each call has given its slot back")
		require.True(t, s.lateAnswers.TryAcquire(lateAnswersMax))
		require.True(t, s.recalls.TryAcquire(recallsMax))
		served, unproved := s.counts()
		require.Zero(t, served)
		require.Zero(t, unproved)
		require.Empty(t, s.bearers)
	})
	return s
}

func place1(account exchange.AccountID) engine.Request {
	return engine.Request{Command: exchange.Command{Kind: exchange.PlaceOrder, Account: account, Symbol: "A", Shares: 1,
		Terms: exchange.Terms{Side: exchange.Buy, Limit: 1}}}
}

func query1(account exchange.AccountID, order exchange.OrderID) engine.Request {
	return engine.Request{Command: exchange.Command{Kind: exchange.QueryOrder, Account: account, Order: order}}
}

// call executes requests, completes them, and waits until the outcomes are durable.
func call(t *testing.T, s *Server, c *Caller, requests ...engine.Request) []Outcome {
	t.Helper()
	outcomes := make([]Outcome, len(requests))
	p, err := s.Call(background, c, requests, outcomes)
	require.NoError(t, err)
	p.Complete(background)
	require.NoError(t, p.Wait(background))
	return outcomes
}

// enter returns a caller that leaves when the test ends.
func enter(t *testing.T, s *Server, grant *auth.Grant) *Caller {
	t.Helper()
	c, err := s.Enter("client", grant, func() { t.Error("its place was given to another connection") })
	require.NoError(t, err)
	t.Cleanup(c.Leave)
	return c
}

func TestACallIsDoneInItsOrderAndToldOnceItIsDurable(t *testing.T) {
	x := newFake()
	x.held = true
	s := callable(t, x, Options{})
	c := enter(t, s, nil)
	requests := []engine.Request{query1("1", 7), place1("1"), query1("1", 8)}
	outcomes := make([]Outcome, 3)
	p, err := s.Call(background, c, requests, outcomes)
	require.NoError(t, err)
	require.Equal(t, []int{7, 8}, x.queried)
	require.Equal(t, exchange.Shares(7e8), outcomes[0].Status.Open)
	require.Equal(t, exchange.Shares(8e8), outcomes[2].Status.Open)
	require.False(t, p.IsDurable())
	short, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, s.Durable(short, engine.Mark{Seq: 3}), context.Canceled)
	waited := make(chan error, 1)
	go func() { waited <- p.Wait(background) }()
	x.set(func() { x.durable = 2 })
	select {
	case <-waited:
		t.Fatal("Wait returned before the record was durable")
	default:
	}
	x.set(func() { x.durable = 3 })
	require.NoError(t, <-waited)
	require.True(t, p.IsDurable())
	m := s.options.Metrics
	require.Equal(t, 3.0, testutil.ToFloat64(m.frames))
	require.Equal(t, 2.0, testutil.ToFloat64(m.byKind[exchange.QueryOrder][exchange.OK]))
}

func TestWhatATokenOrARateDoesNotAllowIsNotDone(t *testing.T) {
	x, keys := newFake(), newKeyring(t)
	token, id := keys.add("account:1", time.Time{})
	s := callable(t, x, Options{Tokens: keys.tokens})
	s.SetRates(0, 2)
	grant, err := keys.tokens.Check(token)
	require.NoError(t, err)
	c := enter(t, s, grant)
	require.Same(t, grant, c.Grant())
	outcomes := call(t, s, c, place1("2"), place1("1"), place1("1"), place1("1"), query1("1", 3))
	require.Equal(t, exchange.NotAllowed, outcomes[0].Refusal.Reason)
	require.Equal(t, exchange.NotAllowed, outcomes[0].Reason)
	require.Contains(t, outcomes[0].Refusal.Text, "account 2")
	require.Equal(t, exchange.OK, outcomes[1].Reason)
	require.Equal(t, exchange.OK, outcomes[2].Reason)
	require.Equal(t, exchange.RateExceeded, outcomes[3].Refusal.Reason)
	require.Contains(t, outcomes[3].Refusal.Text, "account 1 is over its limit of 2 orders and creates per second")
	require.Equal(t, exchange.Shares(3e8), outcomes[4].Status.Open, "each outcome has the result of its own request")
	require.Equal(t, 3, x.executed())
	require.Empty(t, call(t, s, c))

	// Without a token, or after its end, nothing is executed.
	_, err = s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
	require.ErrorIs(t, err, ErrUnauthorized)
	keys.revoke(id)
	_, err = s.Call(background, c, []engine.Request{place1("1")}, make([]Outcome, 1))
	require.ErrorIs(t, err, ErrUnauthorized)
	require.Equal(t, 3, x.executed())
}

func TestOnlyItsOwnOrdersAreShownToABearer(t *testing.T) {
	x, keys := newFake(), newKeyring(t)
	x.foreign = 5
	s := callable(t, x, Options{Tokens: keys.tokens})
	token, _ := keys.add("account:1", time.Time{})
	grant, err := keys.tokens.Check(token)
	require.NoError(t, err)
	require.Equal(t, exchange.UnknownOrder, call(t, s, enter(t, s, grant), query1("1", 5))[0].Reason)
	require.True(t, x.commands[0].OwnOnly)

	open := callable(t, x, Options{})
	require.Equal(t, exchange.ForeignOrder, call(t, open, enter(t, open, nil), query1("1", 5))[0].Reason)

	x.past = 5 // order 5 is only in the history
	require.Equal(t, exchange.UnknownOrder, call(t, s, enter(t, s, grant), query1("1", 5))[0].Reason)
	require.Equal(t, exchange.ForeignOrder, call(t, open, enter(t, open, nil), query1("1", 5))[0].Reason)
}

// Outcomes in the history are fetched. If the history fails to answer once, it is not queried again in the same call.
func TestWhatIsInTheHistoryIsFetched(t *testing.T) {
	x := newFake()
	x.past, x.executions = 10, exchange.ReportExecutionsMax+5
	s := callable(t, x, Options{})
	c := enter(t, s, nil)
	outcomes := call(t, s, c, query1("1", 3), query1("1", 11))
	require.Equal(t, exchange.Shares(3e8), outcomes[0].Status.Open)
	require.Len(t, outcomes[0].Status.Executions, exchange.ReportExecutionsMax+1)
	require.Equal(t, []int{3}, x.recalled)
	x.away = true
	outcomes = call(t, s, c, query1("1", 3), query1("1", 4), engine.Request{Command: exchange.Command{
		Kind: exchange.ListFills, Account: "1"}})
	require.Equal(t, exchange.HistoryUnavailable, outcomes[0].Reason)
	require.Equal(t, exchange.HistoryUnavailable, outcomes[1].Reason)
	require.Equal(t, exchange.ViewUnavailable, outcomes[2].Reason, "the server has no view")
	for _, o := range outcomes {
		require.Equal(t, exchange.Nowhere, o.Pending, "a refusal is complete")
	}
	require.Equal(t, []int{3, 3}, x.recalled, "the history is not asked again")
}

// The number of concurrent requests from Request is limited; callers from Enter have limits of their own.
func TestRequestsOfOtherTransportsAreBounded(t *testing.T) {
	x := newFake()
	s := callable(t, x, Options{})
	var pending []Pending
	for range answersMax {
		p, err := s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
		require.NoError(t, err)
		pending = append(pending, p)
	}
	_, err := s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
	require.ErrorIs(t, err, ErrBusy)
	require.Equal(t, answersMax, x.executed())
	call(t, s, enter(t, s, nil), place1("1"))
	for i := range pending {
		require.NoError(t, pending[i].Wait(background))
	}
	// A request that must ask the database before it is executed counts against a lower limit.
	x.old = "old"
	late := place1("1")
	late.Ref = "old"
	pending = nil
	for range lateAnswersMax {
		p, err := s.Call(background, s.Request(nil), []engine.Request{late}, make([]Outcome, 1))
		require.NoError(t, err)
		pending = append(pending, p)
	}
	_, err = s.Call(background, s.Request(nil), []engine.Request{late}, make([]Outcome, 1))
	require.ErrorIs(t, err, ErrBusy)
	call(t, s, s.Request(nil), place1("1"))
	for i := range pending {
		require.NoError(t, pending[i].Wait(background))
	}
}

func TestAFailedExchangeTellsNothing(t *testing.T) {
	x := newFake()
	s := callable(t, x, Options{})
	gone := errors.New("the disk is gone")
	x.set(func() { x.executeErr = gone })
	_, err := s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
	require.ErrorIs(t, err, gone)
	x.set(func() { x.executeErr, x.durableErr = nil, gone })
	p, err := s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
	require.NoError(t, err)
	require.ErrorIs(t, p.Wait(background), gone)
	x.set(func() { x.durableErr = nil })
	p, err = s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
	require.NoError(t, err)
	s.Abort()
	require.ErrorIs(t, p.Wait(background), ErrAborted)
	_, err = s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
	require.ErrorIs(t, err, ErrAborted)
}

// Callers from Enter and sessions share the ConnectionsMax places, and the oldest unauthenticated one is
// closed.
func TestCallersAndSessionsShareTheirPlaces(t *testing.T) {
	l, keys := listen(t), newKeyring(t)
	token, _ := keys.add("account:1", time.Time{})
	other, _ := keys.add("account:2", time.Time{})
	s := start(t, l, newFake(), Options{Tokens: keys.tokens, ConnectionsMax: 3})
	grant, err := keys.tokens.Check(token)
	require.NoError(t, err)
	aborted := make(chan int, 10)
	enter := func(n int, grant *auth.Grant) (*Caller, error) {
		return s.Enter("client", grant, func() { aborted <- n })
	}
	first, err := enter(1, nil)
	require.NoError(t, err)
	proved, err := enter(2, grant)
	require.NoError(t, err)
	c := dial(t, l)
	c.send(authFrame(other))
	require.NotContains(t, c.reply(), "<error")
	third, err := enter(3, nil) // closes the first, which has not authenticated
	require.NoError(t, err)
	require.Equal(t, 1, <-aborted)
	first.Leave()
	first.Leave()
	served, unproved := s.counts()
	require.Equal(t, 3, served)
	require.Equal(t, 1, unproved)

	// One token may have two of the three places.
	require.NoError(t, third.Prove(grant))
	third.Leave()
	fourth, err := enter(4, nil)
	require.NoError(t, err)
	another, err := enter(5, grant) // closes the fourth
	require.NoError(t, err)
	require.Equal(t, 4, <-aborted)
	_, err = enter(6, nil)
	require.EqualError(t, err, "the exchange has 3 connections and accepts no more; try again later")
	another.Leave()
	again, err := enter(7, nil)
	require.NoError(t, err)
	require.NoError(t, again.Prove(grant))
	c.Close()
	eventually(t, func() bool { served, _ := s.counts(); return served == 2 })
	last, err := enter(8, nil)
	require.NoError(t, err)
	require.EqualError(t, last.Prove(grant), "the token has 2 connections and is allowed no more; try again later")
	for _, c := range []*Caller{fourth, proved, again, last} {
		c.Leave()
	}
	served, unproved = s.counts()
	require.Zero(t, served)
	require.Zero(t, unproved)
}

func TestACallersOrdersEndWithIt(t *testing.T) {
	x := newFake()
	s := callable(t, x, Options{})
	c := enter(t, s, nil)
	cod := place1("1")
	cod.OnDisconnect = true
	call(t, s, c, place1("1"), cod, cod)
	require.Len(t, x.made(), 1)
	require.Equal(t, []*engine.Origin{nil, x.made()[0], x.made()[0]}, x.originsOf())
	require.Empty(t, x.endedOf())
	c.Leave()
	c.Leave()
	require.Equal(t, x.made(), x.endedOf())
	require.Panics(t, func() { call(t, s, s.Request(nil), cod) })
}

func TestAStoppedServerLetsNoCallerIn(t *testing.T) {
	s := callable(t, newFake(), Options{})
	select {
	case <-s.Draining():
		t.Fatal("the shutdown does not wait for the caller")
	default:
	}
	require.NoError(t, s.Shutdown(background))
	<-s.Draining()
	_, err := s.Enter("client", nil, func() {})
	require.EqualError(t, err, "the exchange is stopping")
}

// A caller whose token has too many connections does not use up a place.
func TestARefusedTokenTakesNoPlace(t *testing.T) {
	keys := newKeyring(t)
	token, _ := keys.add("account:1", time.Time{})
	s := callable(t, newFake(), Options{Tokens: keys.tokens, ConnectionsMax: 3})
	grant, err := keys.tokens.Check(token)
	require.NoError(t, err)
	enter(t, s, grant)
	enter(t, s, grant)
	_, err = s.Enter("client", grant, func() {})
	require.EqualError(t, err, "the token has 2 connections and is allowed no more; try again later")
	served, _ := s.counts()
	require.Equal(t, 2, served)
}

// A frame that waits for the history twice, before its execution and for its reply, uses only one of the places for
// waiting frames. callable checks that.
func TestAFrameTakesOnePlaceAmongThoseThatWait(t *testing.T) {
	x := newFake()
	x.old, x.past = "old", 5
	s := callable(t, x, Options{})
	frame := `<transactions id="1"><order sym="A" amount="1" limit="1" ref="old"/><query id="5"/></transactions>`
	var reply string
	require.NoError(t, s.Answer(background, xmlCodec, []byte(frame), func(r []byte) { reply = string(r) }))
	require.Contains(t, reply, `<status id="5">`)
}

func TestACallerIsReadMoreSlowlyAboveItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := callable(t, newFake(), Options{})
		c := enter(t, s, nil)
		require.Zero(t, c.Over(1_000_000))
		s.SetRates(10, 0)
		require.Zero(t, c.Over(10))
		require.Equal(t, time.Second, c.Over(10))
		require.LessOrEqual(t, c.Over(1_000_000), slowMax)
		require.Equal(t, 2.0, testutil.ToFloat64(s.options.Metrics.byLimit[limitRateConnection]))
		s.SetRates(1000, 0)
		require.Zero(t, c.Over(1), "use under the old rate is forgotten")
	})
}

// A caller that waits because of its rate adopts a new rate within a second.
func TestASlowedCallerAdoptsANewRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := callable(t, newFake(), Options{})
		c := enter(t, s, nil)
		s.SetRates(1, 0)
		begun := time.Now()
		go func() {
			time.Sleep(5 * time.Second / 2)
			s.SetRates(0, 0)
		}()
		c.SlowDown(background, 1000)
		require.Equal(t, 3*time.Second, time.Since(begun))
	})
}

// A caller that waits because of its rate returns early when the server stops or its connection ends.
func TestASlowedCallerIsLetGo(t *testing.T) {
	for name, end := range map[string]func(s *Server, cancel func()){
		"stop": func(s *Server, _ func()) { s.drain() },
		"end":  func(_ *Server, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			s := callable(t, newFake(), Options{})
			c := enter(t, s, nil)
			s.SetRates(1, 0)
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			slowed := make(chan struct{})
			go func() {
				defer close(slowed)
				c.SlowDown(ctx, 1000)
			}()
			end(s, cancel)
			select {
			case <-slowed:
			case <-time.After(slowMax / 2):
				t.Fatal("the caller still waits")
			}
		})
	}
}

// The parts of one Call wait for that call's records, and each part is counted once. A request that may have to wait
// for the history starts a Call of its own.
func TestEachOutcomeOfACallIsToldByItself(t *testing.T) {
	x := newFake()
	x.held = true
	s := callable(t, x, Options{})
	c := enter(t, s, nil)
	requests, outcomes := []engine.Request{place1("1"), query1("1", 7), place1("1")}, make([]Outcome, 3)
	p, err := s.Call(background, c, requests, outcomes)
	require.NoError(t, err)
	for i := range requests {
		part := p.Part(requests[i:i+1], outcomes[i:i+1])
		require.False(t, part.IsDurable())
		require.Equal(t, p.Seq(), part.Seq())
		if i == 1 {
			x.set(func() { outcomes[0].Pending = exchange.InView })
			part.Complete(background)
			require.Equal(t, exchange.InView, outcomes[0].Pending, "the other request stays incomplete")
			outcomes[0].Pending = exchange.Nowhere
		}
	}
	x.set(func() { x.durable = 3 })
	for i := range requests {
		part := p.Part(requests[i:i+1], outcomes[i:i+1])
		require.NoError(t, part.Wait(background))
	}
	m := s.options.Metrics
	require.Equal(t, 3.0, testutil.ToFloat64(m.frames))
	require.Equal(t, 2.0, testutil.ToFloat64(m.byKind[exchange.PlaceOrder][exchange.OK]))

	require.Equal(t, 0, s.Together(nil))
	require.Equal(t, 3, s.Together(requests))
	x.old = "old"
	for old, want := range []int{1, 1, 2} {
		late := slices.Clone(requests)
		late[old].Ref = x.old
		require.Equal(t, want, s.Together(late))
	}
}
