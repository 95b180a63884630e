package jsonrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door"
	"outcry/internal/door/admin"
	"outcry/internal/door/asof"
	"outcry/internal/door/jsonrpc"
	"outcry/internal/door/websocket"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
	"outcry/internal/testing/rpctest"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// patience is how long tests wait for an expected event. No result depends on its value.
const patience = rpctest.Patience

// server is an exchange in this process: an engine with its journal, tables and views, and the door over HTTP. Tests
// that need a kill or a command line are in cmd/outcryd.
type server struct {
	t        *testing.T
	http     string // address
	data     string // directory of journal and tokens
	sessions *door.Server
	gate     atomic.Uint64 // the views pass on no later records
	disk     sync.Mutex    // while a test holds it, the journal's disk finishes no sync after the present one
	figures  *prometheus.Registry
	log      logged
	tokens   map[string]string              // by scope; nil if no token is required
	grant    func(token string) *auth.Grant // returns the grant of a token
}

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns the lines that contain a text.
func (l *logged) lines(having string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, having) {
			all = append(all, line)
		}
	}
	return all
}

// start starts a server that stops when the test ends. It closes connections that are silent for the time idle, unless
// that is 0. If scopes are given, it requires tokens, and has one token for each scope and one for admin.
func start(t *testing.T, idle time.Duration, scopes ...string) *server {
	t.Helper()
	return startWith(t, 1<<20, idle, scopes...)
}

// startWith is start with a size of the journal's segments. The journal has room for two segments of records that wait
// for the disk.
func startWith(t *testing.T, segment int64, idle time.Duration, scopes ...string) *server {
	t.Helper()
	s := &server{t: t, data: t.TempDir(), figures: prometheus.NewRegistry()}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	s.gate.Store(math.MaxUint64)
	tokens := s.newTokens(scopes, log)
	j, err := journal.Open(s.data+"/journal", journal.Options{Version: exchange.EventVersion, SegmentBytes: segment,
		OnSync: func(int, int, time.Duration) {
			s.disk.Lock()
			defer s.disk.Unlock()
		}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	events := engine.NewTrail(j)
	tables := newTables(t, j, events, log)
	running, end := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	t.Cleanup(func() {
		end()
		parts.Wait()
	})
	parts.Go(func() { assert.NoError(t, tables.projector.Run(running)) })
	x := engine.New(engine.Options{Journal: j, State: exchange.NewState(), Projection: tables.projector,
		History: tables.History, Trail: events})
	t.Cleanup(x.Close)
	view, feed, followers := s.newViews(events, x, tables, log)
	parts.Go(func() { view.Run(running) })
	parts.Go(func() { feed.Run(running) })
	if tokens != nil {
		parts.Go(func() { tokens.Run(running) })
	}

	doors := door.NewMetrics()
	s.sessions = door.New(x, door.Options{IdleTimeout: idle, Tokens: tokens, View: view, Followers: followers, Log: log,
		Metrics: doors})
	m := websocket.NewMetrics()
	s.figures.MustRegister(m, doors)
	sockets := websocket.NewServer(websocket.Options{IdleTimeout: func() time.Duration { return idle }, Log: log,
		Metrics: m})
	nothing := func() {}
	d := jsonrpc.NewDoor(jsonrpc.Options{Socket: sockets, Tokens: tokens,
		Sessions: func() *door.Server { return s.sessions }, Why: func() error { return nil },
		Feed: func() *market.Feed { return feed }, View: func() *accounts.View { return view },
		History: func() asof.History { return tables }, Refused: nothing, Denied: nothing, Log: log})
	s.serve(d, tokens, log)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, errors.Join(s.sessions.Shutdown(ctx), sockets.Shutdown(ctx)))
	})
	return s
}

// newTokens makes the tokens of a server, or returns nil without scopes.
func (s *server) newTokens(scopes []string, log *slog.Logger) *auth.Tokens {
	if scopes == nil {
		return nil
	}
	s.tokens = make(map[string]string)
	for _, text := range append(scopes, "admin") {
		scope, err := auth.ParseScope(text)
		require.NoError(s.t, err)
		s.tokens[text], _, err = auth.Add(s.data, scope, time.Time{}, "")
		require.NoError(s.t, err)
	}
	tokens, err := auth.OpenTokens(s.data, log)
	require.NoError(s.t, err)
	s.grant = func(token string) *auth.Grant {
		grant, err := tokens.Check(token)
		require.NoError(s.t, err)
		return grant
	}
	return tokens
}

// tables is the database of a server.
type tables struct {
	*postgres.History
	projector *postgres.Projector
}

// WaitApplied implements asof.History.
func (t tables) WaitApplied(ctx context.Context, seq uint64) error {
	return t.projector.WaitApplied(ctx, seq)
}

// newTables returns a database without records and the projector of a journal.
func newTables(
	t *testing.T, j *journal.Journal, events *trail.Trail[exchange.KeptEvent], log *slog.Logger,
) tables {
	t.Helper()
	url := exchangetest.NewTables(t)
	store, err := postgres.Open(t.Context(), url, log)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	require.NoError(t, store.SetJournal(t.Context(), j.ID(), settings.AckJournal))
	history, err := postgres.OpenHistory(t.Context(), url, "")
	require.NoError(t, err)
	t.Cleanup(history.Close)
	projector, err := postgres.NewProjector(postgres.ProjectorOptions{Store: store, Journal: j, Trail: events, Log: log,
		OnRetry: func() { t.Error("Postgres does not accept a batch") }})
	require.NoError(t, err)
	return tables{history, projector}
}

// gated is a follower of the server's sessions. It may see all durable records, although the gate holds it back.
type gated struct {
	*trail.Follower[exchange.KeptEvent]
	visible func() uint64
}

func (g gated) Visible() uint64 { return g.visible() }

// newViews returns the views of a new journal, which the caller runs, and their followers.
func (s *server) newViews(
	events *trail.Trail[exchange.KeptEvent], x *engine.Engine, from tables, log *slog.Logger,
) (view *accounts.View, feed *market.Feed, followers []door.Follower) {
	s.t.Helper()
	follow := func() *trail.Follower[exchange.KeptEvent] {
		f, err := events.Follow(trail.FollowOptions{HoldMax: math.MaxUint64,
			Limit: func() uint64 { return min(x.DurableSeq(), s.gate.Load()) }})
		require.NoError(s.t, err)
		followers = append(followers, gated{f, x.DurableSeq})
		return f
	}
	view = accounts.NewView(accounts.Options{Records: follow(), Fills: from.Fills, Log: log}, &exchange.Snapshot{})
	feed = market.NewFeed(market.Options{Records: follow(), Log: log, Candles: from.Candles,
		Stored: from.projector.Applied}, &market.Snapshot{})
	return view, feed, followers
}

// serve serves HTTP until the test ends.
func (s *server) serve(d *jsonrpc.Door, tokens *auth.Tokens, log *slog.Logger) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	s.http = l.Addr().String()
	h := admin.NewServer(admin.Options{WebSocket: d, Gatherer: s.figures, Tokens: tokens, Log: log,
		Ready: func() error { return nil }, Started: func() error { return nil }, Refused: func() {}, Denied: func() {},
		LogLevel: new(slog.LevelVar)})
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	s.t.Cleanup(func() {
		require.NoError(s.t, h.Close())
		require.ErrorIs(s.t, <-served, http.ErrServerClosed)
	})
}

// xml executes a frame of XML, as an operator, and returns its reply.
func (s *server) xml(frame string) (reply string) {
	s.t.Helper()
	ctx := context.Background()
	if s.tokens != nil {
		ctx = auth.WithGrant(ctx, s.grant(s.tokens["admin"]))
	}
	err := s.sessions.Answer(ctx, door.Adapt(wire.XML{}), []byte(frame), func(xml []byte) { reply = string(xml) })
	require.NoError(s.t, err)
	return reply
}

// create executes the elements of a frame create, and demands success.
func (s *server) create(elements string) {
	s.t.Helper()
	require.NotContains(s.t, s.xml("<create>"+elements+"</create>"), "<error")
}

// dial connects a client without a token.
func (s *server) dial() *rpctest.Conn {
	s.t.Helper()
	return rpctest.Dial(s.t, s.http, "")
}

// figure returns the value of a metric of the door's connections.
func (s *server) figure(name string) float64 {
	s.t.Helper()
	all, err := s.figures.Gather()
	require.NoError(s.t, err)
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(s.t, "there is no metric "+name)
	return 0
}

// accountID returns the id of an account.
func accountID(n int) exchange.AccountID { return exchange.AccountID(strconv.Itoa(n)) }

// TestTranscripts plays the transcripts of testdata/websocket.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	rpctest.Play(t, func(t *testing.T) *rpctest.Server {
		s := start(t, 0)
		return &rpctest.Server{HTTP: s.http, XML: s.xml}
	})
}
