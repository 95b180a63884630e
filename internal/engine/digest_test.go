package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// TestARunningExchangeHasTheDigestOfItsState compares digests for any size of the listing's pieces, with idle and
// with running shards.
func TestARunningExchangeHasTheDigestOfItsState(t *testing.T) {
	m := open(t, Options{})
	m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m.random(rand.New(rand.NewPCG(seed, 0)), 2000)
	m.halted("C", true)
	m.halted("B", false)
	for n := range 3 * 256 {
		id := exchange.AccountID(fmt.Sprint(1000 + n))
		m.all(exchange.Command{Kind: exchange.OpenAccount, Account: id, Balance: exchange.Cash{Lo: 5}},
			exchange.Command{Kind: exchange.DepositShares, Account: id, Symbol: "B", Deposited: exchange.Shares(n).Position()})
	}
	for range 2*digestOrders + 5 {
		m.do(buy("B", 1, 1))
	}
	asked := func() [sha256.Size]byte {
		digest, seq, ok := m.Digest(background)
		require.True(t, ok)
		require.Equal(t, m.journal.Appended(), seq)
		return digest
	}
	awake := asked()
	require.Eventually(t, func() bool { return len(m.awakeNow()) == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, awake, asked(), "at rest")
	require.Empty(t, m.awakeNow(), "no owner was woken")
	m.Close()
	require.Equal(t, m.State().Digest(), awake)
	m.Engine = New(Options{Journal: m.journal, State: m.State(), OrdersAfter: 1 << 40})
	require.Equal(t, awake, asked())
}

// TestADigestUnderLoadIsRightOrNone: if a digest is returned while sessions trade, it is the digest of the
// records up to its seq.
func TestADigestUnderLoadIsRightOrNone(t *testing.T) {
	m := inParts(t, Options{})
	m.do(exchange.Command{Kind: exchange.MakeSymbol, Symbol: "C"})
	found := make(map[uint64][sha256.Size]byte)
	var traders sync.WaitGroup
	done := make(chan struct{})
	for n := range 3 {
		traders.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 0))
			for range 20 {
				m.random(rng, 20)
				time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
			}
		})
	}
	go func() { traders.Wait(); close(done) }()
	for asking, none := true, 0; asking; {
		select {
		case <-done:
			asking = false
		default:
		}
		if digest, seq, ok := m.Digest(background); ok {
			found[seq] = digest
		} else {
			none++
		}
		if !asking {
			t.Logf("%d digests, %d calls without one", len(found), none)
		}
	}
	require.Contains(t, found, m.journal.Appended(), "at the end")
	state := exchange.NewState()
	state.Index.FillsMax = 2
	for n, record := range m.records(m.journal.Appended()) {
		var e exchange.Event
		require.NoError(t, exchange.DecodeEvent(record, &e))
		require.NoError(t, state.Apply(&e))
		if digest, ok := found[uint64(n+1)]; ok {
			require.Equal(t, state.Digest(), digest, "after record %d", n+1)
		}
	}
}

// fullLog is a journal that has no room for orders in parts.
type fullLog struct{ *journal.Journal }

func (fullLog) ClaimMany(int, int) (<-chan struct{}, error) { return nil, noRoom{} }

type noRoom struct{}

func (noRoom) Error() string { return "no room" }
func (noRoom) NoRoom() bool  { return true }

// TestWhatIsHeldForAMomentIsInNoDigest: an order for which the journal has no room leaves no record, but briefly has a
// hold.
func TestWhatIsHeldForAMomentIsInNoDigest(t *testing.T) {
	m := inParts(t, Options{})
	for range 4000 {
		require.Equal(t, exchange.OK, m.do(sell("A", 1, 5)).Reason)
	}
	m.Close()
	m.Engine = New(Options{Journal: fullLog{m.journal}, State: m.State(), Now: m.options.Now})
	want, last, ok := m.Digest(background)
	require.True(t, ok)
	refused, enough := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(refused)
		for {
			select {
			case <-enough:
				return
			default:
				if r := m.do(buy("A", 4000, 5)); !assert.Equal(t, exchange.NoRoom, r.Reason) {
					return
				}
			}
		}
	}()
	for range 2000 {
		if digest, seq, ok := m.Digest(background); ok {
			require.Equal(t, last, seq)
			require.Equal(t, want, digest)
		}
	}
	close(enough)
	<-refused
}

// hookedLog is a journal that calls functions of a test.
type hookedLog struct {
	*journal.Journal
	looked   func() // called after Appended has read its result
	appended func() // called before AppendClaimed returns
}

func (l *hookedLog) Appended() uint64 {
	seq := l.Journal.Appended()
	if f := l.looked; f != nil {
		f()
	}
	return seq
}

func (l *hookedLog) AppendClaimed(record []byte, claimed int) (uint64, error) {
	seq, err := l.Journal.AppendClaimed(record, claimed)
	if f := l.appended; f != nil {
		f()
	}
	return seq, err
}

// TestADigestWaitsForWhatIsNotSettled takes a digest when the last record is appended but not settled in the
// ledger.
func TestADigestWaitsForWhatIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Options{})
		m.do(sell("B", 5, 3))
		m.Close()
		log := &hookedLog{Journal: m.journal}
		m.Engine = New(Options{Journal: log, State: m.State(), Now: m.options.Now})
		appended, settle := make(chan struct{}), make(chan struct{})
		log.appended = func() { close(appended); <-settle }
		placed := make(chan exchange.Result, 1)
		go func() { placed <- m.do(buy("B", 2, 3)) }()
		<-appended
		digests := make(chan [sha256.Size]byte, 1)
		go func() {
			digest, _, ok := m.Digest(background)
			assert.True(t, ok)
			digests <- digest
		}()
		time.Sleep(time.Second) // in synctest's time: returns once Digest waits for the order
		require.Empty(t, digests)
		log.appended = nil
		close(settle)
		digest := <-digests
		<-placed
		m.Close()
		require.Equal(t, m.State().Digest(), digest)
		m.Engine = New(Options{Journal: m.journal, State: m.State()}) // the market's cleanup closes it
	})
}

// TestADigestLooksOnceMoreWhenItIsDone appends a record right after one of the digest's reads of the last seq, for
// each of those reads in turn.
func TestADigestLooksOnceMoreWhenItIsDone(t *testing.T) {
	for look := 1; ; look++ {
		m := open(t, Options{})
		m.Close()
		want := m.State().Digest()
		log := &hookedLog{Journal: m.journal}
		m.Engine = New(Options{Journal: log, State: m.State(), Now: m.options.Now})
		looks, last := 0, m.journal.Appended()
		log.looked = func() {
			if looks++; looks == look {
				log.looked = nil
				m.do(exchange.Command{Kind: exchange.OpenAccount, Account: "3", Balance: exchange.Cash{Lo: 5}})
			}
		}
		digest, seq, ok := m.Digest(background)
		if log.looked != nil {
			require.Greater(t, look, 4)
			require.True(t, ok)
			return
		}
		if ok {
			require.Equal(t, last, seq)
			require.Equal(t, want, digest, "look %d", look)
		}
	}
}

func TestADigestIsReturnedOnceItIsDurable(t *testing.T) {
	m, log := openShared(t, Options{})
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, _, ok := m.Digest(ctx)
	require.False(t, ok, "no round is confirmed")
	log.set(1000, nil)
	_, _, ok = m.Digest(background)
	require.True(t, ok)
	log.set(1000, errors.New("another machine leads"))
	_, _, ok = m.Digest(background)
	require.False(t, ok)
	log.set(1000, nil)

	failed := open(t, Options{})
	require.NoError(t, failed.journal.Close())
	_, err := failed.Execute(background, []exchange.Command{buy("A", 1, 1)}, make([]exchange.Result, 1))
	require.ErrorIs(t, err, journal.ErrClosed)
	_, _, ok = failed.Digest(background)
	require.False(t, ok, "a book may have changes that are in no record")
}
