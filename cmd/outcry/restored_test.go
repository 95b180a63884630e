package main

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/operate"
	"outcry/internal/wire"
)

// answered is a frame, and what the exchange answered when it came for the first time.
type answered struct{ frame, reply string }

// sent sends frames and returns their answers, none of which may be an error.
func sent(t *testing.T, p *exchangeProcess, frames ...[]byte) (all []answered) {
	t.Helper()
	for _, frame := range frames {
		reply, err := (&client{access: access{addr: p.addr, timeout: time.Minute}}).exchange(frame)
		require.NoError(t, err)
		require.NotContains(t, string(reply), "<error", "%s", frame)
		all = append(all, answered{string(frame), string(reply)})
	}
	return all
}

// operating is the operator's way to an exchange.
func operating(p *exchangeProcess) *operate.Client {
	return operate.NewClient(p.http, time.Minute, nil)
}

// withRefs are commands of an account that use a ref of each of the three kinds, in a
// symbol of its own.
func withRefs(account, sym string) [][]byte {
	return [][]byte{
		new(wire.Create).Account(wire.Account{ID: account, Balance: "70", Ref: "mine"}).Append(nil),
		new(wire.Create).Symbol(sym, wire.Placement{Account: account, Shares: "7", Ref: "shares"}).Append(nil),
		wire.NewTransactions(account).OrderRef(sym, "-2", "3", "sell").OrderRef(sym, "-1", "4", "more").Append(nil),
	}
}

// beforeBackup uses refs as account 101, and halts its symbol, EARLY, and B.
func beforeBackup(t *testing.T, p *exchangeProcess) []answered {
	t.Helper()
	all := sent(t, p, withRefs("101", "EARLY")...)
	for _, sym := range []string{"EARLY", "B"} {
		_, err := operating(p).Halt(background, sym, "before the backup")
		require.NoError(t, err)
	}
	return all
}

// afterBackup does one of everything: it uses refs as account 102, halts its symbol,
// LATE, resumes B, and cancels one order and all of account 101.
func afterBackup(t *testing.T, p *exchangeProcess) []answered {
	t.Helper()
	all := sent(t, p, withRefs("102", "LATE")...)
	_, err := operating(p).Halt(background, "LATE", "after the backup")
	require.NoError(t, err)
	_, err = operating(p).Resume(background, "B")
	require.NoError(t, err)
	canceled, err := operating(p).CancelAll(background, "101", "")
	require.NoError(t, err)
	require.Equal(t, 2, canceled.Orders)
	sent(t, p, wire.NewTransactions("102").CancelRef("sell").Append(nil))
	return all
}

// requireEveryKind demands that the journal has a record of each kind after one.
func requireEveryKind(t *testing.T, data string, after uint64) {
	t.Helper()
	found := map[exchange.EventKind]bool{}
	require.NoError(t, journal.Scan(filepath.Join(data, "journal"), func(seq uint64, record []byte) error {
		var e exchange.Event
		if seq > after {
			if err := exchange.DecodeEvent(record, &e); err != nil {
				return err
			}
			found[e.Kind] = true
		}
		return nil
	}))
	for kind := exchange.AccountOpened; kind <= exchange.OrdersCanceled; kind++ {
		require.True(t, found[kind], "a record of kind %d", kind)
	}
}

// requireAnswered sends frames again, each of which must get its first answer.
func requireAnswered(t *testing.T, p *exchangeProcess, all []answered) {
	t.Helper()
	for _, a := range all {
		reply, err := (&client{access: access{addr: p.addr, timeout: time.Minute}}).exchange([]byte(a.frame))
		require.NoError(t, err)
		require.Equal(t, a.reply, string(reply), a.frame)
	}
}

// requireHalted demands that orders for a symbol are refused for a reason, or for "" that
// they are taken.
func requireHalted(t *testing.T, p *exchangeProcess, sym, reason string) {
	t.Helper()
	answer := ordered(t, p, sym)
	if reason == "" {
		require.Empty(t, answer.Error, sym)
		return
	}
	require.Regexp(t, `^symbol `+sym+` is halted since \S+ and takes no orders; cancel and query work: `+reason+`$`, answer.Error)
}

// ordered places an order of account 1, and returns the answer.
func ordered(t *testing.T, p *exchangeProcess, sym string) wire.Answer {
	t.Helper()
	reply, err := (&client{access: access{addr: p.addr, timeout: time.Minute}}).exchange(wire.NewTransactions("1").Order(sym, "0.00000001", "0.01").Append(nil))
	require.NoError(t, err)
	answers, err := wire.ParseReply(reply)
	require.NoError(t, err)
	require.Len(t, answers, 1)
	return answers[0]
}

// skippedMin is how many order ids a restore leaves out at least.
const skippedMin = 1_000_000_000

// requireNewID demands that the next order's id is the one that restore told, above all
// that were given out.
func requireNewID(t *testing.T, p *exchangeProcess, told string, above uint64) {
	t.Helper()
	answer := ordered(t, p, "A")
	require.Empty(t, answer.Error)
	require.Contains(t, told, "the next order is "+answer.ID)
	id, err := strconv.ParseUint(answer.ID, 10, 64)
	require.NoError(t, err)
	require.Greater(t, id, above)
}
