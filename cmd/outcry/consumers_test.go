package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/door/web"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/lab/model"
	"outcry/internal/operate/remote"
	"outcry/internal/postgres"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
	feeds "outcry/internal/view/market"
)

// both is an exchange and its reference model. Each frame goes to both, and the replies must be equal.
type both struct {
	t        *testing.T
	client   *cli.Client
	operator *remote.Client
	model    *model.Exchange
}

// send sends a frame to both and compares the replies.
func (b *both) send(frame []byte) {
	b.t.Helper()
	got, err := exchangeXML(b.client, frame)
	require.NoError(b.t, err)
	require.Equal(b.t, model.Normalize(b.model.Do(frame, 1)), model.Normalize(got))
}

// sells places n orders of account 1 to sell the smallest part of a share.
func (b *both) sells(sym string, n int) {
	for ; n > 0; n -= min(n, 1000) {
		frame := wire.NewTransactions("1")
		for range min(n, 1000) {
			frame.Order(sym, "-0.00000001", "9")
		}
		b.send(frame.Append(nil))
	}
}

// leadsTo holds the steps that produce a record of each kind, in the order of the kinds. A new kind needs a
// step here, and the program and the model must support it.
var leadsTo = map[exchange.EventKind]func(b *both){
	exchange.AccountOpened: func(b *both) {
		b.send(new(wire.Create).Account(wire.Account{ID: "1", Balance: "100", Ref: "a"}).
			Account(wire.Account{ID: "2", Balance: "200"}).Append(nil))
	},
	exchange.SymbolMade: func(b *both) { b.send(new(wire.Create).Symbol("A").Symbol("B").Append(nil)) },
	exchange.SharesDeposited: func(b *both) {
		b.send(new(wire.Create).Symbol("A", wire.Placement{Account: "1", Shares: "10"}).Append(nil))
	},
	exchange.OrderAccepted: func(b *both) {
		b.send(wire.NewTransactions("1").Order("A", "-2", "5").Order("A", "-3", "6").Append(nil))
		b.send(wire.NewTransactions("2").Order("A", "4", "5.5").Append(nil))
	},
	exchange.OrderCanceled: func(b *both) { b.send(wire.NewTransactions("1").Cancel("2").Append(nil)) },
	exchange.SymbolHalted: func(b *both) {
		for _, sym := range []string{"A", "B"} {
			got, err := b.operator.Halt(background, sym, "news")
			require.NoError(b.t, err)
			require.Equal(b.t, b.model.Halt(sym), got.Changed)
		}
	},
	exchange.SymbolResumed: func(b *both) {
		got, err := b.operator.Resume(background, "A")
		require.NoError(b.t, err)
		require.Equal(b.t, b.model.Resume("A"), got.Changed)
	},
	exchange.OrdersCanceled: func(b *both) {
		b.sells("A", 3)
		got, err := b.operator.CancelAll(background, "1", "")
		require.NoError(b.t, err)
		require.Equal(b.t, b.model.CancelAll("1", "", 1)["A"].Orders, got.Orders)
		require.Equal(b.t, 3, got.Orders)
	},
	exchange.OrderContinued: func(b *both) {
		b.send(wire.NewTransactions("1").Order("A", "-1", "10").Append(nil)) // stays open
		b.sells("A", exchange.FillsMax+1)
		b.send(wire.NewTransactions("2").Order("A", "1", "9").Append(nil))
		b.send(wire.NewTransactions("2").Element("cancel-all").Append(nil))
		b.sells("A", exchange.FillsMax+1)
		b.send(wire.NewTransactions("2").Place(wire.Order{Sym: "A", Amount: "1", Type: "market"}).Append(nil))
	},
	exchange.OrderReduced: func(b *both) {
		b.send(wire.NewTransactions("1").Place(wire.Order{Sym: "A", Amount: "-0.5", Limit: "9", Post: "yes", Ref: "b"}).
			Element("amend", wire.Attr{Name: "ref", Value: "b"}, wire.Attr{Name: "amount", Value: "-0.4"}).Append(nil))
	},
	exchange.OrderReplaced: func(b *both) {
		b.send(wire.NewTransactions("1").Element("amend", wire.Attr{Name: "ref", Value: "b"},
			wire.Attr{Name: "limit", Value: "8"}, wire.Attr{Name: "newref", Value: "c"}).
			Place(wire.Order{Sym: "A", Amount: "0.1", Limit: "8", STP: "oldest", TIF: "IOC", COD: "yes"}).
			Order("A", "-0.1", "8").Append(nil))
	},
	exchange.AccountRuled: func(b *both) {
		got, err := b.operator.SetLimits(background, "2", remote.AccountRules{Shares: "5"})
		require.NoError(b.t, err)
		require.True(b.t, got.Changed)
		b.model.SetAccountRules("2", model.AccountRules{SharesMax: big.NewInt(5e8)})
		b.send(wire.NewTransactions("2").Order("A", "5.1", "1").Order("A", "5", "1").Append(nil))
		blocked, err := b.operator.Block(background, "2", "news")
		require.NoError(b.t, err)
		require.Equal(b.t, b.model.Block("2", 1)["A"].Orders, blocked.Canceled.Orders)
		b.send(wire.NewTransactions("2").Order("A", "1", "1").Append(nil))
	},
	exchange.SymbolRuled: func(b *both) {
		got, err := b.operator.SetSymbol(background, "A", remote.SymbolRules{Tick: "0.5", Band: "20%"})
		require.NoError(b.t, err)
		require.True(b.t, got.Changed)
		require.NoError(b.t, b.model.SetSymbolRules("A", model.SymbolRules{Tick: big.NewInt(5e7), Band: big.NewInt(2e7)}))
		b.send(wire.NewTransactions("1").Order("A", "-0.1", "9.1").Order("A", "-0.1", "9.5").
			Order("A", "-0.1", "0.5").Append(nil))
	},
	exchange.SwitchSet: func(b *both) {
		b.send(wire.NewTransactions("1").Element("cancel-after", wire.Attr{Name: "seconds", Value: "86400"}).Append(nil))
	},
}

// TestEveryConsumerKnowsEveryKindOfRecord makes a record of each kind, and requires that every reader of records
// reaches the same state. A new kind fails this test and a linter until each reader supports it.
func TestEveryConsumerKnowsEveryKindOfRecord(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database, "--segment=8388608", "--http=127.0.0.1:0")
	c := &cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}
	b := &both{t, c, remote.NewClient(p.Http, time.Minute, nil), model.New()}
	for kind := range exchange.EventKinds() {
		require.Contains(t, leadsTo, kind, "add what leads to a record of kind %s", kind)
		leadsTo[kind](b)
	}
	require.NoError(t, b.model.Check())
	last := p.Stop()

	first, fields := map[exchange.EventKind]uint64{}, map[string]bool{}
	eachEvent(t, data, func(seq uint64, e *exchange.Event) {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(*e)) {
			fields[field.Name] = fields[field.Name] || !reflect.ValueOf(*e).FieldByIndex(field.Index).IsZero()
		}
		if _, there := first[e.Kind]; !there {
			first[e.Kind] = seq
		}
	})
	for kind := range exchange.EventKinds() {
		require.Contains(t, first, kind, "no step has led to a record of kind %s", kind)
	}
	for name, set := range fields {
		require.True(t, set, "no step has led to a record that has a %s", name)
	}
	t.Run("replay, and the digest", func(t *testing.T) {
		state := exchange.NewState()
		eachEvent(t, data, func(seq uint64, e *exchange.Event) {
			before := [32]byte{}
			if first[e.Kind] == seq {
				before = state.Digest()
			}
			require.NoError(t, state.Apply(e))
			if first[e.Kind] == seq {
				require.NotEqual(t, before, state.Digest(), "of record %d, of kind %s", seq, e.Kind)
			}
		})
		require.NoError(t, state.Audit())
		require.Equal(t, last.Digest, fmt.Sprintf("%x", state.Digest()))
	})
	t.Run("the journal printer", func(t *testing.T) {
		lines := strings.Split(strings.TrimSuffix(must(t, "journal", data), "\n"), "\n")
		require.GreaterOrEqual(t, len(lines), int(last.Seq))
	})
	t.Run("the projector, and a start from tables alone", func(t *testing.T) {
		tables := exchangetest.NewTables(t)
		projected(t, data, tables)
		requireRows(t, data, tables, first)
		store, err := postgres.Open(background, tables, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		defer store.Close()
		snap, err := store.Load(background)
		require.NoError(t, err)
		loaded, err := snap.Restore()
		require.NoError(t, err)
		require.Equal(t, last.Digest, fmt.Sprintf("%x", loaded.Digest()))
	})
	t.Run("verify", func(t *testing.T) {
		requireHistory(t, data, database)
		must(t, "verify", "--database-url="+database, data)
	})
	t.Run("backup", func(t *testing.T) {
		file, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
		elsewhere := pgtest.NewDatabase(t)
		must(t, "backup", "--data="+data, "--database-url="+database, file)
		must(t, "restore", "--data="+restored, "--database-url="+elsewhere, file)
		must(t, "verify", "--database-url="+elsewhere, restored)
		again := exchangetest.Start(t, restored, elsewhere, "--segment=8388608")
		require.Equal(t, last.Digest, again.Loaded.Digest)
	})
	t.Run("market data", func(t *testing.T) { requireMarket(t, data, database) })
}

// requireRows requires that the first record of each kind has its row in the tables.
func requireRows(t *testing.T, data, database string, first map[exchange.EventKind]uint64) {
	t.Helper()
	eachEvent(t, data, func(seq uint64, e *exchange.Event) {
		if first[e.Kind] == seq {
			table, key := postgres.RecordRow(e, seq)
			column, value, _ := strings.Cut(key, " ")
			touch := fmt.Sprintf("UPDATE %s SET %s = %[2]s WHERE %[2]s = '%[3]s'", table, column, value)
			require.Positive(t, execute(t, database, touch), "%s, %s, of kind %s", table, key, e.Kind)
		}
	})
}

// eachEvent decodes each record of a journal and calls f. Encoding the event must give the same bytes.
func eachEvent(t *testing.T, data string, f func(seq uint64, e *exchange.Event)) {
	t.Helper()
	require.NoError(t, journal.Scan(filepath.Join(data, "journal"), exchange.EventVersion,
		func(seq uint64, record []byte) error {
			var e exchange.Event
			require.NoError(t, exchange.DecodeEvent(record, &e))
			require.Equal(t, string(record), string(exchange.AppendEvent(nil, &e)))
			f(seq, &e)
			return nil
		}))
}

// requireHistory compares each record with the one read from the tables. The tables have no times for kinds of
// records that need none.
func requireHistory(t *testing.T, data, database string) {
	t.Helper()
	archive, err := postgres.OpenArchive(background, database)
	require.NoError(t, err)
	defer archive.Close()
	var replied []exchange.Event
	require.NoError(t, archive.History(background, func(_ uint64, e *exchange.Event) error {
		replied = append(replied, *e)
		replied[len(replied)-1].Fills = slices.Clone(e.Fills)
		return nil
	}))
	eachEvent(t, data, func(seq uint64, e *exchange.Event) {
		if replied[seq-1].Time == 0 {
			e.Time = 0
		}
		require.True(t, e.Same(&replied[seq-1]), "record %d is %+v, the tables tell %+v", seq, e, replied[seq-1])
	})
}

// requireMarket compares the answers of a feed that follows the whole journal with the answers of a feed that
// starts from the tables.
func requireMarket(t *testing.T, data, database string) {
	t.Helper()
	j, err := journal.Open(filepath.Join(data, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 8 << 20})
	require.NoError(t, err)
	defer j.Close()
	store, err := postgres.Open(background, database, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer store.Close()
	snap, err := store.Load(background)
	require.NoError(t, err)
	traded, trades, err := store.LoadMarket(background)
	require.NoError(t, err)
	candles, err := store.LoadCandles(background)
	require.NoError(t, err)
	ofTables := &feeds.Snapshot{Seq: snap.Seq, Symbols: snap.Symbols, Orders: snap.Orders, Traded: traded, Trades: trades,
		Candles: candles}
	require.Equal(t, answersOf(t, j, ofTables), answersOf(t, j, &feeds.Snapshot{}))
}

// answersOf returns the answers of a feed that starts from a snapshot and follows a journal to its end.
func answersOf(t *testing.T, j *journal.Journal, begin *feeds.Snapshot) (answers []string) {
	t.Helper()
	records, err := engine.NewTrail(j).Follow(trail.FollowOptions{After: begin.Seq, HoldMax: 1 << 20})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	feed := feeds.NewFeed(feeds.Options{Records: records, Log: log}, begin)
	ctx, cancel := context.WithCancel(background)
	ended := make(chan struct{})
	go func() { feed.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	done := func() bool { return feed.Seq() == j.Appended() || feed.Err() != nil }
	require.Eventually(t, done, time.Minute, time.Millisecond)
	require.NoError(t, feed.Err())
	api := web.NewAPI(web.APIOptions{Started: func() error { return nil }, Log: log, Metrics: new(web.Metrics)})
	api.Attach(feed)
	for _, path := range []string{"symbols", "book/A", "book/B", "trades/A"} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
		answers = append(answers, w.Body.String())
	}
	return answers
}
