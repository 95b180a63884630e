package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"outcry/internal/door"
	"outcry/internal/door/admin"
	"outcry/internal/door/binance"
	"outcry/internal/door/web"
	"outcry/internal/door/websocket"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/operate/backup"
	"outcry/internal/operate/health"
	"outcry/internal/operate/recovery"
	"outcry/internal/operate/settings"
	"outcry/internal/postgres"
	"outcry/internal/process/listen"
	"outcry/internal/process/logging"
	"outcry/internal/process/sdnotify"
	"outcry/internal/process/version"
	"outcry/internal/view/accounts"
	"outcry/internal/view/market"
)

// The journal is the engine's log on a server alone.
var _ engine.Log = (*journal.Journal)(nil)

// server holds all parts of a running exchange, in the order in which they start. stop ends them in the
// opposite order.
type server struct {
	config  *settings.Config
	log     *slog.Logger
	level   *slog.LevelVar // the level of log
	metrics *metrics
	manager *sdnotify.Notifier // nil without a service manager
	reloads settings.Reloads
	member  *member // nil for a server alone

	lock            *journal.DirLock
	guards          guards
	xmlAddr         *listen.Bound // bound at the start; the server listens on it once the exchange is ready
	http            *http.Server
	httpConnections *admin.Connections
	sockets         *websocket.Server // nil without HTTP; so are market and feed
	market          *web.API
	binance         *binance.Door
	doors           doors
	feed            *market.Feed
	followers       []door.Follower // of the journal: view and feed
	view            *accounts.View  // serves the accounts' queries about themselves
	marks           health.LagMarks // when the journal's records were synced
	health          *health.Watch   // watches the health of the exchange; nil without feed
	httpAddr        net.Addr
	database        *recovery.Database
	journal         *journal.Journal
	trail           *trail.Trail[exchange.KeptEvent] // of the journal
	projector       *postgres.Projector
	history         *postgres.History
	engine          *engine.Engine
	sessions        *door.Server

	notReady  atomic.Pointer[error] // why the exchange accepts no orders; nil while it accepts them
	running   sync.WaitGroup        // goroutines that a stop waits for
	exit      func(status int)      // os.Exit, except in tests
	ended     chan error            // errors of parts that ended unexpectedly
	unproject context.CancelFunc    // ends the projector
	unfollow  context.CancelFunc    // ends the feed and the view
}

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// newServer returns a server that is not started.
func newServer(c *settings.Config, log *slog.Logger, level *slog.LevelVar) *server {
	s := &server{config: c, log: log, level: level, metrics: newMetrics(), exit: os.Exit,
		ended: make(chan error, 8), unproject: func() {}, unfollow: func() {}}
	s.member = newMember(s)
	return s
}

// serve runs the exchange until ctx ends, and then stops it in order. The error says why it could not start
// or why it stopped. serve has logged it.
func serve(ctx context.Context, c *settings.Config, log *logging.Log) error {
	manager, err := sdnotify.New(log.Logger)
	if err != nil {
		log.Error("the exchange has stopped", "error", err)
		return err
	}
	defer manager.Close()
	s := newServer(c, log.Logger, log.Level)
	s.manager = manager
	s.metrics.watchLog(log)
	s.setNotReady(errStarting)
	asked, unlisten := listenForReload()
	defer unlisten()
	if s.member.beganAgain() { // after a restart the service manager's watchdog timer is already running
		defer s.feedWatchdog()()
	}
	err = s.start(ctx)
	if err == nil {
		if !s.member.beganAgain() {
			defer s.feedWatchdog()()
		}
		err = s.runUntil(ctx, asked)
	}
	if beginsAgain(err) {
		err = s.beginAgain(ctx, err)
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || beginsAgain(err)) {
		err = nil // stopped by a signal while it was starting or restarting
	}
	// Log the reason first, because the stop may log errors with other causes.
	cause := err
	if cause != nil {
		s.log.Error("the exchange has stopped", "error", cause)
	}
	manager.Tell("STOPPING=1")
	s.setNotReady(errStopping)
	if stopErr := s.stop(); cause == nil && stopErr != nil {
		err = stopErr
		s.log.Error("the exchange has stopped", "error", err)
	}
	return err
}

// runUntil reloads the settings on request until ctx ends. It returns nil then, or the error that ends the
// exchange.
func (s *server) runUntil(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-reload:
			if terminalGone(os.Stderr) {
				s.log.Info("stopping: the terminal was closed")
				return nil
			}
			s.reload()
		case <-ctx.Done():
			s.log.Info("stopping: received frames are finished, then Postgres is brought up to date")
			return nil
		case err := <-s.ended:
			return err
		case <-s.journal.Failed():
			return s.journal.Err()
		case <-s.member.deposed():
			return errDeposed
		case <-s.member.failed():
			return s.member.err()
		case <-s.member.becomesLeader():
			if err := s.member.takeOver(ctx); err != nil {
				return err
			}
		}
	}
}

// start starts all parts. After an error, stop ends the parts that were started.
func (s *server) start(ctx context.Context) (err error) {
	if s.lock, err = s.lockData(ctx); err != nil {
		return err
	}
	if err = backup.Unfinished(s.config.Data); err != nil {
		return err
	}
	if err = s.refuseData(); err != nil {
		return err
	}
	// Check this before the database is opened, which would upgrade its schema.
	if err = journal.CheckVersion(s.config.JournalDir(), exchange.EventVersion); err != nil {
		return err
	}
	if err = s.startSecurity(); err != nil {
		return err
	}
	// Bind both addresses before the database is started or created, which may take long.
	httpAddr, err := s.bindBoth()
	if err != nil {
		return err
	}
	limitMemory(s.config, s.log)
	s.onReload(s.reloadMemory, settings.Memory)
	if err = s.startHTTP(httpAddr); err != nil {
		return err
	}
	s.onReload(s.reloadEngine, settings.Engine)
	s.onReload(s.reloadSessions, settings.Sessions)
	s.onReload(s.reloadSecurity, settings.Rates)
	if s.config.Clustered() {
		return s.startMember(ctx)
	}
	if s.database, err = recovery.OpenDatabase(ctx, s.config, nil, s.log, s.setNotReady); err != nil {
		return err
	}
	if err = s.startEngine(ctx); err != nil {
		return err
	}
	return s.startSessions()
}

// startHTTP serves HTTP at an address, or does nothing if it is nil. It starts early so that operators can
// watch the rest of the start.
func (s *server) startHTTP(at *listen.Bound) error {
	if at == nil {
		return nil
	}
	l, err := at.Listen()
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	s.httpAddr = l.Addr()
	s.log.Info("the HTTP side is up", "http", s.httpAddr.String())
	s.market = s.newMarketAPI()
	s.sockets = s.newSockets()
	s.binance = s.newBinance()
	s.onReload(s.reloadHTTP, settings.HTTP)
	s.metrics.watchServer(s.settings, s.connections, s.ready)
	s.warnOfDescriptors()
	s.httpConnections = admin.NewConnections(s.connections().HTTP, func(client net.Addr) {
		s.metrics.sessions.HTTPFull()
		s.log.Warn("the HTTP side has reached its limit of connections", "client", client.String())
	})
	s.metrics.gauge("outcry_http_connections", "HTTP connections that are open.",
		func() float64 { return float64(s.httpConnections.Count()) })
	s.http = admin.NewServer(admin.Options{
		Market:    s.market,
		WebSocket: s.newRPC(),
		Binance:   s.binance,
		Gatherer:  s.member.figures(s.metrics.registry),
		Ready:     s.ready,
		Started:   s.started,
		Admit: func(ctx context.Context, head []byte, frameBytes int) (func(), error) {
			return s.sessions.Admit(ctx, s.codecOf(true), head, frameBytes)
		},
		Answer: func(ctx context.Context, xml []byte, tell func(reply []byte)) error {
			return s.sessions.Answer(ctx, s.codecOf(true), xml, tell)
		},
		Busy:          door.ErrBusy,
		Refuse:        func(text string) []byte { return wire.AppendError(nil, text) },
		FrameBytesMax: s.config.FrameBytesMax,
		Connections:   s.httpConnections,
		Hosts:         s.config.Hosts(),
		Origins:       s.config.Origins(),
		Tokens:        s.guards.tokens,
		Refused:       s.metrics.sessions.Refused,
		Denied:        s.metrics.sessions.Denied,
		Exchange:      func() admin.Exchange { return s.engine },
		Status:        s.statusNow,
		Cluster:       s.clusterView(),
		Members:       s.members(),
		Alive:         s.aliveView(),
		ProbesOpen:    s.config.ProbesOpen,
		Log:           s.log,
		LogLevel:      s.level,
	})
	mark := s.http.ConnContext
	s.http.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return door.WithClient(mark(ctx, conn), conn.RemoteAddr())
	}
	serve := s.http.Serve
	if s.http.TLSConfig = s.guards.tls(); s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	s.running.Go(func() {
		if err := serve(s.httpConnections.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			s.ended <- fmt.Errorf("http: %w", err)
		}
	})
	return nil
}

// codecOf returns the codec of the XML protocol, for clients over HTTP or over TCP.
func (s *server) codecOf(http bool) door.Codec {
	return door.Adapt(wire.XML{Bare: s.config.BareReplies, HTTP: http})
}

// startSessions listens for clients and reports that the exchange is ready.
func (s *server) startSessions() error {
	now := s.settings() // a standby may have reloaded them
	s.sessions = door.New(s.engine, door.Options{
		FrameBytesMax: s.config.FrameBytesMax, ReplyBytesMax: s.config.ReplyBytesMax, MemoryMax: s.config.MemoryMax,
		ConnectionsMax: s.connections().XML,
		IdleTimeout:    now.IdleTimeout, FrameTimeout: now.FrameTimeout, WriteTimeout: now.WriteTimeout,
		TLS: s.guards.tls(), Tokens: s.guards.tokens, View: s.view, Followers: s.followers,
		Log: s.log, Metrics: s.metrics.sessions,
	})
	s.sessions.SetRates(now.RateConnection, now.RateAccount)
	l, err := s.xmlAddr.Listen()
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	s.running.Go(func() {
		if err := s.sessions.Serve(l, s.codecOf(false)); err != nil {
			s.ended <- fmt.Errorf("xml: %w", err)
		}
	})
	s.doors.sessions.Store(s.sessions)
	s.notReady.Store(nil)
	s.announce(l.Addr())
	return nil
}

// announce logs the line that names every address.
func (s *server) announce(xml net.Addr) {
	attrs := []any{"xml", xml.String(), "data", s.config.Data, "ack", s.config.Ack,
		"pid", os.Getpid(), "version", version.String()}
	if s.httpAddr != nil {
		attrs = append(attrs, "http", s.httpAddr.String())
	}
	if s.database.Cluster != nil {
		attrs = append(attrs, "psql", s.database.Cluster.PsqlCommand())
	}
	s.log.Info("ready", attrs...)
	s.manager.Tell("READY=1", s.status())
	s.warnOfExposure(xml)
}

// stop ends all parts in order within the stop timeout. It finishes the frames that have been received and
// brings all answered commands to Postgres.
func (s *server) stop() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.settings().StopTimeout)
	defer cancel()
	overdue := s.abandonAfter(s.settings().StopTimeout + stopGrace)
	defer overdue.Stop() // stopped earlier in the normal case
	if s.engine != nil {
		defer context.AfterFunc(ctx, s.engine.Interrupt)() // interrupt long frames and orders at the stop timeout
	}
	s.member.stopCampaigning()
	s.endClients(ctx)
	s.xmlAddr.Close()
	err = s.member.leave(ctx)
	s.unfollow() // ends the streams, for which the HTTP shutdown would wait
	if s.http != nil {
		if s.http.Shutdown(ctx) != nil {
			s.http.Close()
		}
	}
	// seq and digest of the final state, for the log; nil if the state may not match the journal
	came := s.member.closeStandby()
	if s.engine != nil {
		s.engine.Close()
		if s.journal.Err() == nil && s.member.allCommitted() {
			came = []any{"seq", cmp.Or(s.member.last(), s.journal.Appended()), "digest", recovery.Digest(s.engine.State())}
		}
	}
	if s.projector != nil && s.journal.Err() == nil {
		last := s.journal.Appended()
		if waitErr := s.catchUp(ctx, last); waitErr != nil {
			s.log.Warn("Postgres is not up to date; the next start will bring it up to date",
				"applied_seq", s.projector.Applied(), "journal", last, "error", waitErr)
		}
	}
	s.unproject()
	s.stopSecurity()
	if s.journal != nil {
		err = errors.Join(err, s.journal.Close())
	}
	s.running.Wait()
	if s.history != nil {
		s.history.Close()
	}
	overdue.Stop() // stopping a local Postgres has its own time limit
	if s.database != nil {
		s.database.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
	}
	if s.engine != nil || s.member.follows() {
		s.log.Info("stopped", came...)
	}
	return err
}
