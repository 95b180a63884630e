package door

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// aWhile is a long wait, in which no follower is found to hang.
const aWhile = hungAfter - 2*slowCheckEvery

// follower is a Follower whose position and limit the test sets.
type follower struct {
	mu       sync.Mutex
	position uint64
	visible  uint64
	changed  chan struct{}
}

// newFollower returns a follower that may see all records and has processed none.
func newFollower() *follower { return &follower{visible: math.MaxUint64, changed: make(chan struct{})} }

func (f *follower) Position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position
}

func (f *follower) Visible() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.visible
}

func (f *follower) Await(ctx context.Context, seq uint64) error {
	for {
		f.mu.Lock()
		done, changed := f.position >= seq, f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reach sets the last record that the follower has processed. math.MaxUint64 means that the follower has ended.
func (f *follower) reach(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.position = seq
	close(f.changed)
	f.changed = make(chan struct{})
}

// see sets the last record that the follower may see.
func (f *follower) see(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visible = seq
}

// requireNothingTaken requires that no frame or request has a place or memory.
func requireNothingTaken(t *testing.T, s *Server) {
	t.Helper()
	requireNothingHeld(t, s)
	require.True(t, s.answering.TryAcquire(answersMax))
	s.answering.Release(answersMax)
}

// A connection above its share is not read until the followers have caught up enough. Until then it holds no
// resources, and others are served.
func TestAConnectionAboveItsShareIsNotRead(t *testing.T) {
	for name, memory := range map[string]int{"small frames": 0, "large frames": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, x, slow, fast := newPipes(), newFake(), newFollower(), newFollower()
				x.work = lagShare / 2
				s := start(t, p, x, Options{Followers: []Follower{fast, slow, fast}, BatchFramesMax: 1, BatchMemoryMax: memory,
					IdleTimeout: time.Second, FrameTimeout: time.Second})
				c, other := connect(t, p), connect(t, p)
				fast.reach(1 << 40)
				go func() {
					c.send(strings.Repeat(ordering("1", 1), 5))
					c.send(query(1)) // is read from the connection after the wait
				}()
				read := func(frames int) {
					for range frames {
						require.Contains(t, c.reply(), anOpened)
					}
					synctest.Wait()
					requireNothingTaken(t, s)
				}
				read(3)
				require.Equal(t, 9, x.executed())
				for _, frame := range []string{opening(7), ordering("2", 1)} { // the registrar and a shard
					other.send(frame)
					require.NotContains(t, other.reply(), "error")
				}
				time.Sleep(aWhile + slowCheckEvery/2)
				requireNothingTaken(t, s)
				slow.reach(1)
				synctest.Wait()
				require.Equal(t, 13, x.executed(), "half of the share must be free again")
				slow.reach(4)
				read(2)
				require.Equal(t, 19, x.executed())
				time.Sleep(aWhile)
				slow.reach(1 << 40)
				require.Equal(t, answer(1), c.reply(), "the wait does not count toward IdleTimeout or FrameTimeout")
				require.Equal(t, 2.0, s.hits(limitFollowers))
			})
		})
	}
}

// Above the second bound orders are rejected at once. Everything else that a client sends waits, and so does an order
// with a ref, which may be a repetition.
func TestOrdersAboveTheSecondBoundAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagMax + 1
		s := callable(t, x, Options{Followers: []Follower{f}})
		c := enter(t, s, nil)
		require.Equal(t, exchange.OK, call(t, s, c, place1("1"))[0].Reason)
		require.Equal(t, exchange.RateExceeded, call(t, s, c, place1("1"))[0].Reason)
		repeated := place1("1")
		repeated.Ref = "r"
		cancel, amend := query1("1", 1), query1("1", 1)
		cancel.Kind, amend.Kind = exchange.CancelOrder, exchange.AmendOrder
		done := make(chan []Outcome)
		go func() { done <- call(t, s, c, place1("1"), repeated, cancel, amend, query1("1", 1)) }()
		time.Sleep(aWhile)
		require.Equal(t, 1, x.executed())
		requireNothingTaken(t, s)
		x.set(func() { x.work = 0 })
		f.reach(1)
		outcomes := <-done
		require.Equal(t, 5, x.executed())
		require.True(t, x.commands[1].Repeat)
		require.Equal(t, exchange.RateExceeded, outcomes[0].Reason)
		require.Equal(t, "account views and market data do not have 1048577 records, fills and cancels of this client yet, "+
			"and the limit is 1048576; try again later; cancel and query still work", outcomes[0].Refusal.Text)
		for _, o := range outcomes[1:] {
			require.Equal(t, exchange.OK, o.Reason)
		}
		require.Equal(t, exchange.OK, call(t, s, c, place1("1"))[0].Reason)
	})
}

// The same as the test above over a connection of XML.
func TestAConnectionAboveTheSecondBoundIsReadOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x, f := newPipes(), newFake(), newFollower()
		x.work = lagMax + 1
		s := start(t, p, x, Options{Followers: []Follower{f}, BatchFramesMax: 1})
		c := connect(t, p)
		order := frame(`<transactions id="1">` + anOrder + `</transactions>`)
		go c.send(order, order, order, query(1))
		require.Contains(t, c.reply(), anOpened)
		for range 2 {
			require.Contains(t, c.reply(), "do not have 1048577 records")
		}
		time.Sleep(aWhile)
		require.Equal(t, 1, x.executed())
		requireNothingTaken(t, s)
		f.reach(1)
		require.Equal(t, answer(1), c.reply())
	})
}

// Records that a follower may not see yet do not count as lag: with --ack postgres while Postgres is away, or during a
// slow sync, no client waits because of it.
func TestWhatAFollowerMayNotSeeIsNoLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagTogether
		s := callable(t, x, Options{Followers: []Follower{f}})
		c := enter(t, s, nil)
		f.see(0)
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		for range 2 * lagMax / lagTogether {
			outcomes := make([]Outcome, 1)
			p, err := s.Call(ctx, c, []engine.Request{place1("1")}, outcomes)
			require.NoError(t, err)
			require.NoError(t, p.Wait(ctx))
			require.Equal(t, exchange.OK, outcomes[0].Reason)
		}
		require.Zero(t, s.hits(limitFollowers))
		f.see(math.MaxUint64)
		require.Equal(t, exchange.RateExceeded, call(t, s, c, place1("1"))[0].Reason)
		f.reach(uint64(x.executed()))
		require.Equal(t, exchange.OK, call(t, s, c, place1("1"))[0].Reason)
	})
}

// A follower that ends lets all clients go, and slows none afterwards.
func TestAnEndedFollowerSlowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagMax
		s := callable(t, x, Options{Followers: []Follower{f}})
		c := enter(t, s, nil)
		call(t, s, c, place1("1"))
		done := make(chan []Outcome)
		go func() { done <- call(t, s, c, place1("1")) }()
		synctest.Wait()
		require.Equal(t, 1, x.executed())
		f.reach(math.MaxUint64)
		require.Equal(t, exchange.OK, (<-done)[0].Reason)
		for range 10 {
			require.Equal(t, exchange.OK, call(t, s, c, place1("1"))[0].Reason)
		}
		require.Equal(t, 1.0, s.hits(limitFollowers))
	})
}

// Above the second bound a large frame waits too, no matter how much work the first one was: it may contain cancels,
// which are not rejected.
func TestNoLargeFrameIsReadAboveTheSecondBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, x, f := newPipes(), newFake(), newFollower()
		x.work = lagMax + 1
		s := start(t, p, x, Options{Followers: []Follower{f}, BatchFramesMax: 1, BatchMemoryMax: 1})
		c := connect(t, p)
		cancel := frame(`<transactions id="1"><cancel-all/></transactions>`)
		go c.send(cancel, cancel, cancel)
		c.reply()
		time.Sleep(aWhile)
		require.Equal(t, 1, x.executed())
		requireNothingTaken(t, s)
		x.set(func() { x.work = 0 })
		f.reach(1)
		c.reply()
		c.reply()
		require.Equal(t, 3, x.executed())
	})
}

// The first large frame of a new connection waits for the token or account of its sender before it uses any memory of
// the server. Other tokens and accounts do not wait.
func TestALargeFrameOfANewConnectionWaits(t *testing.T) {
	try := func(t *testing.T, more string, tokens bool) {
		p, x, f := newPipes(), newFake(), newFollower()
		o := Options{Followers: []Follower{f}, BatchMemoryMax: 1, IdleTimeout: time.Second, FrameTimeout: time.Second}
		keys := newKeyring(t)
		token, _ := keys.add("account:1", time.Time{})
		other, _ := keys.add("account:2", time.Time{})
		grant, err := keys.tokens.Check(token)
		require.NoError(t, err)
		if o.Tokens = keys.tokens; !tokens {
			o.Tokens, grant = nil, nil
		}
		x.work = lagTogether + 1
		s := start(t, p, x, o)
		call(t, s, s.Request(grant), place1("1"))
		x.set(func() { x.work = 0 })
		begin := func(token, account string) *client {
			c := connect(t, p)
			if tokens {
				c.send(authFrame(token))
				require.Equal(t, taken, c.reply())
			}
			go c.send(frame(`<transactions id="` + account + `"><cancel-all/>` + more + `</transactions>`))
			return c
		}
		slowed := begin(token, "1")
		time.Sleep(aWhile)
		require.Equal(t, 1, x.executed())
		requireNothingTaken(t, s)
		require.Contains(t, begin(other, "2").reply(), "<canceled")
		require.Equal(t, 2, x.executed())
		f.reach(1)
		require.Contains(t, slowed.reply(), "<canceled")
		require.Equal(t, 3, x.executed())
	}
	for name, more := range map[string]string{"much memory": "", "many bytes": strings.Repeat(" ", 2*smallFrameMax)} {
		for _, tokens := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tokens %t", name, tokens), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { try(t, more, tokens) })
			})
		}
	}
}

// A large frame that has used memory of the server cannot wait any more. It is refused if its account is above the
// second bound by now, or above its share and named too late. The connection stays.
func TestALargeFrameThatCannotWaitIsRefused(t *testing.T) {
	blank := strings.Repeat(" ", smallFrameMax+1)
	for name, test := range map[string]struct {
		xml  string
		work uint32
		done bool
	}{
		"within the second bound": {`<transactions id="1"><cancel-all/>` + blank + `</transactions>`, lagTogether + 1, true},
		"above it":                {`<transactions id="1"><cancel-all/>` + blank + `</transactions>`, lagMax + 1, false},
		"named late":              {blank + `<transactions id="1"><cancel-all/></transactions>`, lagTogether + 1, false},
		"named unusually": {`<transactions id="&#49;"><cancel-all/>` + blank + `</transactions>`, lagTogether + 1,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, x, f := newPipes(), newFake(), newFollower()
				s := start(t, p, x, Options{Followers: []Follower{f}})
				c := connect(t, p)
				whole := frame(test.xml)
				c.send(whole[:len(whole)-1]) // it has been admitted
				x.set(func() { x.work = test.work })
				call(t, s, s.Request(nil), place1("1"))
				x.set(func() { x.work = 0 })
				go c.send(whole[len(whole)-1:], query(1))
				if test.done {
					require.Contains(t, c.reply(), "<canceled")
				} else {
					require.Equal(t, errorReply(textTooMuch), c.reply())
				}
				synctest.Wait()
				requireNothingTaken(t, s)
				f.reach(1)
				require.Equal(t, answer(1), c.reply())
				require.Equal(t, test.done, x.executed() == 3)
			})
		})
	}
}

// Connections of one token, each within its share, are slowed down together, and so are requests with the token. Other
// tokens are not. The same holds for accounts, if tokens are not required.
func TestManyConnectionsShareABound(t *testing.T) {
	keys := newKeyring(t)
	token, _ := keys.add("account:1", time.Time{})
	other, _ := keys.add("account:2", time.Time{})
	grants := make([]*auth.Grant, 2)
	for i, token := range []string{token, other} {
		var err error
		grants[i], err = keys.tokens.Check(token)
		require.NoError(t, err)
	}
	for name, o := range map[string]Options{"tokens": {Tokens: keys.tokens}, "accounts": {}} {
		t.Run(name, func(t *testing.T) {
			grant := grants
			if o.Tokens == nil {
				grant = make([]*auth.Grant, 2)
			}
			synctest.Test(t, func(t *testing.T) {
				x, f := newFake(), newFollower()
				o.Followers = []Follower{f}
				x.work = lagShare
				s := callable(t, x, o)
				for range lagTogether/lagShare + 1 {
					require.Equal(t, exchange.OK, call(t, s, enter(t, s, grant[0]), place1("1"))[0].Reason)
				}
				ordered := x.executed()
				x.set(func() { x.work = 0 })
				var waiting sync.WaitGroup
				late := enter(t, s, grant[0])
				waiting.Go(func() { call(t, s, late, query1("1", 1)) })
				waiting.Go(func() { call(t, s, s.Request(grant[0]), query1("1", 1)) })
				waiting.Go(func() {
					_, err := ask(s, auth.WithGrant(background, grant[0]),
						[]byte(`<transactions id="1"><query id="1"/></transactions>`))
					require.NoError(t, err)
				})
				var admitted time.Time
				waiting.Go(func() {
					release, err := s.Admit(auth.WithGrant(background, grant[0]), xmlCodec, []byte(`<transactions id="1">`),
						smallFrameMax+1)
					require.NoError(t, err)
					admitted = time.Now()
					release()
				})
				begun := time.Now()
				time.Sleep(aWhile + slowCheckEvery/2)
				require.Equal(t, ordered, x.executed())
				requireNothingTaken(t, s)
				call(t, s, enter(t, s, grant[1]), place1("2"))
				call(t, s, s.Request(grant[1]), place1("2"))
				require.Equal(t, ordered+2, x.executed())
				f.reach(uint64(ordered))
				waiting.Wait()
				require.Equal(t, ordered+5, x.executed())
				require.GreaterOrEqual(t, admitted.Sub(begun), aWhile, "a large frame of a token or account")
				require.Zero(t, s.payers.over.Load())
			})
		})
	}
}

// Requests of an account are charged although they have no connection, and a cancel-all to the client that sent it.
func TestRequestsAndCancelAllsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagTogether + 1
		s := callable(t, x, Options{Followers: []Follower{f}})
		all := engine.Request{Command: exchange.Command{Kind: exchange.CancelAll, Account: "1"}}
		call(t, s, s.Request(nil), all)
		done := make(chan struct{})
		go func() {
			defer close(done)
			call(t, s, s.Request(nil), all)
		}()
		synctest.Wait()
		require.Equal(t, 1, x.executed())
		call(t, s, s.Request(nil), place1("2"))
		require.Equal(t, 2, x.executed())
		f.reach(1)
		<-done
	})
}

// A wait ends with the caller's context and with the server. Frames that were already received are still executed.
func TestAWaitForFollowersEnds(t *testing.T) {
	for name, end := range map[string]func(s *Server, cancel func()){
		"stop": func(s *Server, _ func()) { s.drain() },
		"end":  func(_ *Server, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newFake()
				x.work = lagShare + 1
				s := callable(t, x, Options{Followers: []Follower{newFollower()}})
				c := enter(t, s, nil)
				second := enter(t, s, nil)
				call(t, s, c, place1("1"))
				call(t, s, second, place1("1"))
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				var slowed sync.WaitGroup
				slowed.Go(func() { c.SlowDown(ctx, 1) })
				slowed.Go(func() {
					p, err := s.Call(ctx, second, []engine.Request{query1("1", 1)}, make([]Outcome, 1))
					if name == "end" {
						require.ErrorIs(t, err, context.Canceled)
						return
					}
					require.NoError(t, err)
					require.NoError(t, p.Wait(background))
				})
				synctest.Wait()
				begun := time.Now()
				end(s, cancel)
				slowed.Wait()
				require.Zero(t, time.Since(begun))
				require.Equal(t, name == "stop", x.executed() == 3)
			})
		})
	}
}

// A connection that waits for followers ends with its client, with its token and with the server.
func TestAConnectionThatWaitsForFollowersEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, k, x := newPipes(), newKeyring(t), newFake()
		x.work = lagShare + 1
		token, id := k.add("account:1", time.Time{})
		stays, _ := k.add("account:1", time.Time{})
		s := New(x, Options{Tokens: k.tokens, Followers: []Follower{newFollower()}})
		served := make(chan error, 1)
		go func() { served <- s.Serve(p, xmlCodec) }()
		begin := func(token string) *client {
			c := connect(t, p)
			c.send(authFrame(token))
			require.Equal(t, taken, c.reply())
			c.send(ordering("1", 1))
			require.Contains(t, c.reply(), anOpened)
			return c
		}
		revoked, stopped := begin(token), begin(stays)
		synctest.Wait()
		k.revoke(id)
		require.Contains(t, revoked.reply(), "revoked")
		go func() { _, _ = io.Copy(io.Discard, stopped) }() // a pipe has no buffer
		begun := time.Now()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-served)
		require.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
	// Only a TCP connection shows that its client is gone.
	l, x := listen(t), newFake()
	x.work = lagShare + 1
	start(t, l, x, Options{Followers: []Follower{newFollower()}})
	c := dial(t, l)
	c.send(frame(`<session cancel="disconnect"/>`), frame(`<transactions id="1">`+anOrder+`</transactions>`))
	c.reply()
	require.Contains(t, c.reply(), anOpened)
	c.Close()
	eventually(t, func() bool { return len(x.endedOf()) == 1 })
}

// A request that waits is not executed if its token has ended in the meantime.
func TestATokenThatEndsDuringAWaitDoesNothing(t *testing.T) {
	k := newKeyring(t)
	token, id := k.add("account:1", time.Time{})
	grant, err := k.tokens.Check(token)
	require.NoError(t, err)
	x := newFake()
	x.work = lagTogether + 1
	s := callable(t, x, Options{Tokens: k.tokens, Followers: []Follower{newFollower()}})
	call(t, s, s.Request(grant), place1("1"))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, err := s.Call(background, s.Request(grant), []engine.Request{query1("1", 1)}, make([]Outcome, 1))
		require.ErrorIs(t, err, ErrUnauthorized)
	})
	waiting.Go(func() {
		reply, err := ask(s, auth.WithGrant(background, grant), []byte(`<transactions id="1"><query id="1"/></transactions>`))
		require.NoError(t, err)
		require.Equal(t, errorReply(textTokenEnded), string(reply))
	})
	eventually(t, func() bool { return s.hits(limitFollowers) == 2 })
	k.revoke(id)
	waiting.Wait()
	require.Equal(t, 1, x.executed())
}

// counted is a follower that counts how often it is asked for its position.
type counted struct {
	*follower
	asked int
}

func (f *counted) Position() uint64 {
	f.asked++
	return f.follower.Position()
}

// The number of charges is bounded, and so is the work to find a charge for one more payer. No work is lost. Charges of
// which nothing is left are used for others.
func TestChargesOfPayersAreBounded(t *testing.T) {
	f := &counted{follower: newFollower()}
	p := newPayers([]Follower{f})
	const payers = payerSets * (setMax + 1)
	for i := range uint64(payers) {
		f.asked = 0
		p.add([]debt{{key: i | i<<40, seq: i + 1, work: 1}})
		require.LessOrEqual(t, f.asked, setMax+1)
	}
	own, sum := 0, int64(0)
	for _, set := range p.sets {
		require.LessOrEqual(t, len(set), setMax)
		for _, one := range set {
			own, sum = own+1, sum+one.sum
		}
	}
	require.Equal(t, payerSets*setMax, own)
	require.EqualValues(t, payers, sum)
	f.reach(payers)
	p.add([]debt{{key: 5, seq: payers + 1, work: 1}, {key: 5 + payerSets, seq: payers + 1, work: 2}})
	for key, work := range map[uint64]int64{5: 1, 5 + payerSets: 2} {
		one, own := p.find(key)
		require.True(t, own)
		require.Equal(t, work, one.sum)
	}
	require.Len(t, p.sets[5], setMax)
}

// A charge is counted in a few parts, and is too small only briefly: it is exact once the newest record of a part is
// visible, and 0 once all work is done.
func TestAChargeIsCountedInParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var c charge
		f := newFollower()
		followers := newPayers([]Follower{f}).followers
		seq, sum := uint64(0), int64(0)
		var all []owed
		for range random.IntN(300) {
			seq += 1 + random.Uint64N(3)
			work := 1 + random.Int64N(lagShare/20)
			c.add(seq, work, lagShare)
			all, sum = append(all, owed{seq, work}), sum+work
			require.LessOrEqual(t, len(c.owed), owedMax)
			require.Equal(t, sum, c.sum)
		}
		f.see(seq / 2)
		visible := int64(0)
		for _, o := range all {
			if o.seq <= seq/2 {
				visible += o.work
			}
		}
		require.LessOrEqual(t, c.lag(followers).work, visible)
		f.see(seq)
		require.Equal(t, sum, c.lag(followers).work)
		if l := c.lag(followers).within(&c, lagShare); l.work > lagShare {
			f.reach(l.until)
			require.LessOrEqual(t, c.lag(followers).work, int64(lagShare/2))
		}
		f.reach(seq)
		require.Zero(t, c.lag(followers))
		require.Zero(t, c.sum)
		require.Empty(t, c.owed)
	}
}

// Charging a connection whose work the followers have done makes no garbage.
func TestChargingMakesNoGarbage(t *testing.T) {
	f := newFollower()
	s := callable(t, newFake(), Options{Followers: []Follower{f}})
	c := enter(t, s, nil)
	commands, results, seq := []engine.Request{place1("1")}, make([]exchange.Result, 1), uint64(0)
	one := func() {
		seq++
		results[0].Work, results[0].Seq = 1, seq
		c.charge(commands, results)
		if l := c.lag(c.pressed(commands)...); l.slowest != nil || c.judge().lagged {
			t.Error("it lags")
		}
		f.position = seq
	}
	one()
	require.Zero(t, testing.AllocsPerRun(10*lagShare, one))
}

func BenchmarkCharge(b *testing.B) {
	f := newFollower()
	s := New(newFake(), Options{Followers: []Follower{f}})
	c, err := s.Enter("client", nil, func() {})
	require.NoError(b, err)
	commands, results, seq := []engine.Request{place1("1")}, make([]exchange.Result, 1), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		results[0].Work, results[0].Seq = 1, seq
		c.charge(commands, results)
		_ = c.lag(c.pressed(commands)...)
		f.position = seq
	}
}

// Requests that wait for followers hold their commands, so only answersMax of them wait, and slowedMax of one account;
// when they may continue, there is a place for each.
func TestOnlySoManyRequestsWaitForFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, f := newFake(), newFollower()
		x.work = lagTogether + 1
		s := callable(t, x, Options{Followers: []Follower{f}})
		all := func(account int) engine.Request {
			return engine.Request{Command: exchange.Command{Kind: exchange.CancelAll,
				Account: exchange.AccountID(fmt.Sprint(account))}}
		}
		const accounts = answersMax/slowedMax + 1
		done := make(chan error, accounts*(slowedMax+50))
		for account := range accounts {
			call(t, s, s.Request(nil), all(account))
		}
		wait := func(account, requests, refused int) {
			for range requests {
				go func() {
					p, err := s.Call(background, s.Request(nil), []engine.Request{all(account)}, make([]Outcome, 1))
					if err == nil {
						p.Complete(background)
						err = p.Wait(background)
					}
					done <- err
				}()
			}
			synctest.Wait()
			require.Len(t, done, refused)
			for range refused {
				require.ErrorIs(t, <-done, ErrBusy)
			}
		}
		for account := range accounts - 1 {
			wait(account, slowedMax+50, 50)
		}
		wait(accounts-1, 50, 50) // all places are taken
		f.reach(1 << 40)
		synctest.Wait()
		require.Len(t, done, answersMax)
		for range answersMax {
			require.NoError(t, <-done)
		}
		require.Zero(t, s.slowed.all)
		require.Empty(t, s.slowed.of)
	})
}
