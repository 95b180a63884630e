package door

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// owes returns the work in the charge of an account.
func (s *Server) owes(account string) int64 {
	s.payers.mu.Lock()
	defer s.payers.mu.Unlock()
	if one, own := s.payers.find(s.payers.key(account)); own {
		return one.sum
	}
	return 0
}

// Each account is charged for its own work, whatever the order of the commands of a connection, and the rest when the
// connection ends.
func TestEachAccountIsChargedForItsOwnWork(t *testing.T) {
	x := newFake()
	x.work = 1
	s := callable(t, x, Options{Followers: []Follower{newFollower()}})
	c := enter(t, s, nil)
	for range chargeStep - 2 {
		call(t, s, c, place1("1"))
	}
	require.Zero(t, s.owes("1"), "too little yet")
	call(t, s, c, place1("2"), place1("1"))
	require.EqualValues(t, chargeStep-1, s.owes("1"))
	require.EqualValues(t, 1, s.owes("2"))
	call(t, s, c, place1("3"), place1("1"), place1("3"))
	require.Zero(t, s.owes("3"))
	c.Leave()
	require.EqualValues(t, chargeStep, s.owes("1"))
	require.EqualValues(t, 2, s.owes("3"))
	call(t, s, s.Request(nil), place1("4"), place1("5"), place1("4"))
	require.EqualValues(t, 2, s.owes("4"))
	require.EqualValues(t, 1, s.owes("5"))
}

// interrupted is an exchange whose calls of Execute end with an error after all commands were executed.
type interrupted struct {
	*fake
	err error
}

func (x interrupted) Execute(ctx context.Context, commands []engine.Request, results []exchange.Result) (
	engine.Mark, error,
) {
	_, _ = x.fake.Execute(ctx, commands, results)
	return engine.Mark{}, x.err
}

// What was done before the context of Execute ended is charged, for a request and for a frame. After another error the
// results are not read, since the exchange may still write to them.
func TestWhatWasDoneBeforeAnErrorIsCharged(t *testing.T) {
	for err, charged := range map[error]int64{fmt.Errorf("engine: %w", context.Canceled): 7,
		context.DeadlineExceeded: 7, engine.ErrStopped: 0} {
		x := interrupted{newFake(), err}
		x.work = 7
		s := callable(t, x, Options{Followers: []Follower{newFollower()}})
		_, callErr := s.Call(background, s.Request(nil), []engine.Request{place1("1")}, make([]Outcome, 1))
		require.ErrorIs(t, callErr, err)
		require.Equal(t, charged, s.owes("1"), err)
		_, answerErr := ask(s, background, []byte(`<transactions id="2">`+anOrder+`</transactions>`))
		require.ErrorIs(t, answerErr, err)
		require.Equal(t, charged, s.owes("2"), err)
	}
}

// While an account is above its sum, clients of others that are not above anything take no lock of all payers.
func TestWhoIsNotAboveASumNeedsNoLock(t *testing.T) {
	x := newFake()
	s := callable(t, x, Options{Followers: []Follower{newFollower()}})
	light := exchange.AccountID("2")
	for n := 3; s.payers.key(string(light))%payerSets == s.payers.key("1")%payerSets; n++ {
		light = exchange.AccountID(fmt.Sprint(n)) // an account of another set
	}
	x.set(func() { x.work = lagTogether + 1 })
	call(t, s, s.Request(nil), place1("1"))
	require.EqualValues(t, 1, s.payers.over.Load())
	x.set(func() { x.work = 1 })
	s.payers.mu.Lock()
	c, done := enter(t, s, nil), make(chan struct{})
	go func() {
		defer close(done)
		for range chargeStep - 1 {
			call(t, s, c, place1(light))
		}
		c.SlowDown(background, 1)
		call(t, s, s.Request(nil), query1(light, 1))
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("a client waits for the lock of all payers")
	}
	s.payers.mu.Unlock()
	<-done
	require.Equal(t, exchange.OK, call(t, s, c, place1(light))[0].Reason)
}

// The sets of pressed payers are counted right. A payer without a charge of its own shares one of its set, and waits
// only for that one.
func TestPressedPayersAreFoundByTheirSet(t *testing.T) {
	f := newFollower()
	p := newPayers([]Follower{f})
	heavy := func(key uint64) { p.add([]debt{{key: key, seq: 1, work: lagTogether + 1}}) }
	heavy(5)
	heavy(5 + payerSets)
	require.True(t, p.mayLag(5))
	require.False(t, p.mayLag(6))
	require.Positive(t, p.lag(5).work)
	require.Zero(t, p.lag(5+2*payerSets).work, "of the same set, but not pressed")
	for i := range uint64(setMax - 2) {
		p.add([]debt{{key: 5 + (2+i)*payerSets, seq: 1, work: 1}})
	}
	third, fourth, alone := uint64(5+2<<32), uint64(5+3<<32), uint64(6+2<<32)
	require.Positive(t, p.lag(5+99*payerSets).work, "shares the charge of the first")
	require.Zero(t, p.lag(third).work)
	heavy(third)
	require.Positive(t, p.lag(third).work)
	require.Positive(t, p.lag(5+2*payerSets).work, "its charge is shared")
	require.Zero(t, p.lag(fourth).work)
	require.Zero(t, p.lag(alone).work)
	f.reach(1)
	for range 4 {
		p.add(nil)
	}
	require.Zero(t, p.over.Load())
	for _, key := range []uint64{5, 6, third} {
		require.False(t, p.mayLag(key))
	}
	p.add([]debt{{key: third, seq: 2, work: 1}})
	one, own := p.find(third)
	require.True(t, own, "it has the charge of one that owes nothing")
	require.EqualValues(t, 1, one.sum)
}

// amend1 is an amend of an account's order.
func amend1(account exchange.AccountID) engine.Request {
	r := query1(account, 1)
	r.Kind = exchange.AmendOrder
	return r
}

// Above the second bound an amend waits, since only the exchange knows whether it only reduces its order, and is then
// executed with Lags, so that the exchange rejects one that does not. So is an order with a ref. Below the bound, and
// for others, neither is marked.
func TestAmendsAboveTheSecondBoundMayOnlyReduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagMax + 1
		s := callable(t, x, Options{Followers: []Follower{f}})
		c := enter(t, s, nil)
		call(t, s, c, place1("1"))
		x.set(func() { x.work = 0 })
		repeated := place1("1")
		repeated.Ref = "r"
		done := make(chan []Outcome)
		go func() { done <- call(t, s, c, amend1("1"), repeated, query1("1", 1)) }()
		time.Sleep(aWhile)
		require.Equal(t, 1, x.executed())
		call(t, s, enter(t, s, nil), amend1("2"))
		require.False(t, x.commands[1].Lags)
		f.reach(uint64(x.executed()))
		<-done
		require.Equal(t, []bool{true, true, false},
			[]bool{x.commands[2].Lags, x.commands[3].Lags, x.commands[4].Lags})
		call(t, s, c, amend1("1"))
		require.False(t, x.commands[5].Lags)
	})
}

// A large frame over HTTP waits before it is read, as the account or token that it is for, also above the second bound.
// A frame that shows its account too late is not executed. A small frame that needs much memory gives that back while
// it waits.
func TestALargeFrameOverHTTPWaitsBeforeItIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagMax + 1
		s := callable(t, x, Options{Followers: []Follower{f}, BatchMemoryMax: 1})
		call(t, s, s.Request(nil), place1("1"))
		x.set(func() { x.work = 0 })
		const head = `<?xml version="1.0"?> <!-- > --> <transactions id="1">`
		large := head + strings.Repeat(`<query id="1"/>`, 5000) + `</transactions>`
		late := strings.Repeat(" ", smallFrameMax+1) + strings.TrimPrefix(large, `<?xml version="1.0"?>`)
		post := func(xml string) error {
			release, err := s.Admit(background, xmlCodec, []byte(xml)[:min(len(xml), smallFrameMax+1)], len(xml))
			if err != nil {
				return err
			}
			defer release()
			_, err = ask(s, background, []byte(xml))
			return err
		}
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer s.drain()
		waiting.Go(func() { assert.NoError(t, post(large)) })
		waiting.Go(func() { assert.NoError(t, post(head+`<cancel id="1"/></transactions>`)) })
		time.Sleep(aWhile)
		require.Equal(t, 1, x.executed())
		requireNothingTaken(t, s)
		require.ErrorIs(t, post(late), ErrBusy)
		requireNothingTaken(t, s)
		require.NoError(t, post(strings.ReplaceAll(late, `id="1">`, `id="2">`)), "of another account")
		require.Equal(t, 5001, x.executed())
		f.reach(uint64(x.executed()))
		waiting.Wait()
		require.Equal(t, 10_002, x.executed())
		require.NoError(t, post(late))
		requireNothingTaken(t, s)
	})
}

// The wait of a large frame ends with its context, with the server's clients and with its token. What has arrived by
// the time the server drains is executed.
func TestTheWaitOfALargeFrameEnds(t *testing.T) {
	k := newKeyring(t)
	token, id := k.add("account:1", time.Time{})
	grant, err := k.tokens.Check(token)
	require.NoError(t, err)
	for name, end := range map[string]func(s *Server, cancel func()) (want string){
		"context": func(_ *Server, cancel func()) string { cancel(); return ErrUndone.Error() },
		"abort":   func(s *Server, _ func()) string { s.Abort(); return ErrAborted.Error() },
		"token":   func(*Server, func()) string { k.revoke(id); return textTokenEnded },
		"drain":   func(s *Server, _ func()) string { s.drain(); return "" },
	} {
		t.Run(name, func(t *testing.T) {
			x, o := newFake(), Options{Followers: []Follower{newFollower()}}
			x.work = lagTogether + 1
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			var with *auth.Grant
			if name == "token" {
				o.Tokens, with = k.tokens, grant
				ctx = auth.WithGrant(ctx, grant)
			}
			s := callable(t, x, o)
			call(t, s, s.Request(with), place1("1"))
			x.set(func() { x.work = 0 })
			frame := []byte(`<transactions id="1">` + strings.Repeat(`<query id="1"/>`, 5000) + `</transactions>`)
			done := make(chan error)
			go func() {
				release, err := s.Admit(ctx, xmlCodec, frame[:100], len(frame))
				if err == nil {
					_, err = ask(s, ctx, frame)
					release()
				}
				done <- err
			}()
			eventually(t, func() bool { return s.hits(limitFollowers) == 1 })
			want := end(s, cancel)
			err := <-done
			if want == "" {
				require.NoError(t, err)
				require.Equal(t, 5001, x.executed())
				return
			}
			require.ErrorContains(t, err, want)
			require.Equal(t, 1, x.executed())
		})
	}
}

// A request whose client has said until when it may be executed waits no longer, and is not executed then.
func TestARequestThatExpiresWhileItWaitsIsNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagTogether + 1
		s := callable(t, x, Options{Followers: []Follower{f}})
		try := func(allowed, given time.Duration) error {
			ctx, cancel := context.WithTimeout(background, given)
			defer cancel()
			c := s.Request(nil)
			c.Expire(time.Now().Add(allowed))
			p, err := s.Call(ctx, c, []engine.Request{place1("1")}, make([]Outcome, 1))
			if err == nil {
				require.NoError(t, p.Wait(background))
			}
			return err
		}
		require.NoError(t, try(-time.Second, time.Second), "it need not wait")
		begun := time.Now()
		require.ErrorIs(t, try(5*time.Second, 10*time.Second), ErrExpired)
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.ErrorIs(t, try(20*time.Second, 10*time.Second), ErrUndone)
		require.Equal(t, 1, x.executed())
		done := make(chan error)
		go func() { done <- try(5*time.Second, 10*time.Second) }()
		synctest.Wait()
		f.reach(1)
		require.NoError(t, <-done)
		require.Equal(t, 2, x.executed())
	})
}

// A follower that does nothing for hungAfter, although it may, slows no client any more, until it does something again.
// Another follower still does.
func TestAFollowerThatHangsSlowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, hung, other := newFake(), newFollower(), newFollower()
		hung.see(0)
		s := callable(t, x, Options{Followers: []Follower{hung, other}})
		c := enter(t, s, nil)
		only := func(work uint32) exchange.RejectReason { // the other follower does not do it yet
			x.set(func() { x.work = work })
			reason := call(t, s, c, place1("1"))[0].Reason
			hung.see(uint64(x.executed()))
			return reason
		}
		order := func(work uint32) exchange.RejectReason {
			reason := only(work)
			other.reach(uint64(x.executed()))
			return reason
		}
		waits := func() time.Duration {
			begun := time.Now()
			require.Equal(t, exchange.OK, order(lagShare+1))
			return time.Since(begun)
		}
		require.Zero(t, waits())
		hung.reach(1)
		time.Sleep(time.Hour) // without records it does not hang
		require.Zero(t, waits())
		require.Equal(t, hungAfter, waits().Truncate(slowCheckEvery))
		for range 5 {
			require.Zero(t, waits(), "no client waits for it any more")
		}
		require.Equal(t, exchange.OK, order(lagMax+1))
		require.Equal(t, exchange.OK, order(1), "nor is an order rejected because of it")
		require.Equal(t, exchange.OK, only(lagShare+1))
		done := make(chan time.Duration)
		go func() { done <- waits() }()
		time.Sleep(aWhile)
		other.reach(uint64(x.executed()))
		require.Equal(t, aWhile, <-done, "it waits for the other one")
		hung.reach(2) // it does something again
		require.Equal(t, exchange.RateExceeded, order(1))
		hung.reach(uint64(x.executed()))
		require.Zero(t, waits())
	})
}

// Orders that are rejected because of a follower that hangs are accepted after hungAfter, although no client waits.
func TestAFollowerThatHangsRejectsNoOrderForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newFake()
		x.work = lagMax + 1
		s := callable(t, x, Options{Followers: []Follower{newFollower()}})
		c := enter(t, s, nil)
		call(t, s, c, place1("1"))
		begun := time.Now()
		for call(t, s, c, place1("1"))[0].Reason == exchange.RateExceeded {
			time.Sleep(hungAfter / 2)
		}
		require.Equal(t, hungAfter, time.Since(begun))
	})
}

// A create is charged to who sends it, not to the account that it makes: to the connection, and for a request to the
// address of its client. Neither the accounts nor other clients wait for it.
func TestACreateIsChargedToItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagTogether + 1
		s := callable(t, x, Options{Followers: []Follower{f}})
		create := func(address string, account int) error {
			at, err := netip.ParseAddrPort(address)
			require.NoError(t, err)
			_, err = ask(s, WithClient(background, net.TCPAddrFromAddrPort(at)),
				fmt.Appendf(nil, `<create><account id="%d" balance="1"/></create>`, account))
			return err
		}
		require.NoError(t, create("192.0.2.1:1001", 1))
		require.NoError(t, create("[2001:db8::1]:1001", 2))
		opened := func(account exchange.AccountID) engine.Request {
			return engine.Request{Command: exchange.Command{Kind: exchange.OpenAccount, Account: account}}
		}
		c := enter(t, s, nil)
		call(t, s, c, opened("3"))
		require.Zero(t, s.owes("1")+s.owes("2")+s.owes("3"))
		require.EqualValues(t, lagTogether+1, s.owes("192.0.2.1"))
		x.set(func() { x.work = 1 })
		call(t, s, enter(t, s, nil), place1("1"), place1("2"), place1("3"), opened("4"))
		require.NoError(t, create("192.0.2.2:1001", 5))
		before := x.executed()
		var waiting sync.WaitGroup
		waiting.Go(func() { assert.NoError(t, create("192.0.2.1:1002", 6)) })
		waiting.Go(func() { assert.NoError(t, create("[2001:db8::1]:1002", 7)) })
		waiting.Go(func() { call(t, s, c, opened("8")) })
		time.Sleep(aWhile)
		require.Equal(t, before, x.executed())
		f.reach(1 << 40)
		waiting.Wait()
		require.Equal(t, before+3, x.executed())
	})
}

// A frame or call waits for all its accounts that are above their share, a few at a time, and finds them among others
// of their set.
func TestAFrameOfManyAccountsWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		s := callable(t, x, Options{Followers: []Follower{f}})
		const pressed = 2*keysMax + 3
		var commands, alike []engine.Request
		for n := range pressed {
			account := exchange.AccountID(fmt.Sprint(1000 + n))
			commands = append(commands, place1(account), query1("1", 1))
			s.payers.add([]debt{{key: s.payers.key(string(account)), seq: uint64(n + 1), work: lagTogether + 1}})
		}
		c := s.Request(nil)
		require.Len(t, c.pressed(commands), keysMax)
		last := exchange.AccountID(fmt.Sprint(1000 + pressed - 1))
		for n := 10_000; len(alike) <= keysMax; n++ {
			account := exchange.AccountID(fmt.Sprint(n))
			if s.payers.key(string(account))%payerSets == s.payers.key(string(last))%payerSets {
				alike = append(alike, place1(account))
			}
		}
		require.Equal(t, []uint64{s.payers.key(string(last))}, c.pressed(append(alike, place1(last))))
		done := make(chan []Outcome)
		go func() {
			var allowed []engine.Request
			for _, q := range commands {
				q.Kind = exchange.QueryOrder
				allowed = append(allowed, q)
			}
			done <- call(t, s, c, allowed...)
		}()
		for _, at := range []uint64{0, keysMax, 2 * keysMax, pressed - 1} {
			f.reach(at)
			synctest.Wait()
			require.Zero(t, x.executed(), at)
		}
		f.reach(pressed)
		<-done
		require.Equal(t, 2*pressed, x.executed())
	})
}

// A frame over HTTP that waits uses the rate of its account once.
func TestAFrameThatWaitsUsesItsRateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 5
		for name, blank := range map[string]string{"small": "", "large": strings.Repeat(" ", smallFrameMax)} {
			x, f := newFake(), newFollower()
			x.work = lagTogether + 1
			s := callable(t, x, Options{Followers: []Follower{f}, BatchMemoryMax: 1})
			call(t, s, s.Request(nil), place1("1"))
			x.set(func() { x.work = 0 })
			s.SetRates(0, rate)
			frame := []byte(`<transactions id="1">` + strings.Repeat(anOrder, rate) + blank + `</transactions>`)
			if blank != "" { // it cannot wait
				_, err := ask(s, background, frame)
				require.ErrorIs(t, err, ErrBusy)
				f.reach(1)
			}
			done := make(chan []byte)
			go func() {
				reply, err := ask(s, background, frame)
				assert.NoError(t, err)
				done <- reply
			}()
			synctest.Wait()
			f.reach(1)
			require.Equal(t, rate, strings.Count(string(<-done), anOpened), name)
		}
	})
}
