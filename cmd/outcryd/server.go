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
	"outcry/internal/door/websocket"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
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

// The journal is the log of an engine on one machine.
var _ engine.Log = (*journal.Journal)(nil)

// server is everything that a running exchange consists of, in the order in which
// it is started. stop ends it in the opposite order.
type server struct {
	config  *settings.Config
	log     *slog.Logger
	level   *slog.LevelVar // of log
	metrics *metrics
	manager *sdnotify.Notifier // nil if there is none
	reloads settings.Reloads
	member  *member // nil for a server alone

	lock            *journal.DirLock
	guards          guards
	xmlAddr         *listen.Bound // taken from the start on, and listened on once all is there
	http            *http.Server
	httpConnections *admin.Connections
	sockets         *websocket.Server // nil without HTTP, as are market and feed
	market          *market.API
	binance         *binance.Door
	doors           doors
	feed            *market.Feed
	view            *accounts.View  // of accounts
	marks           health.LagMarks // when the journal's records were synced
	health          *health.Watch   // how it is doing; nil without feed
	httpAddr        net.Addr
	database        *recovery.Database
	journal         *journal.Journal
	projector       *postgres.Projector
	history         *postgres.History
	engine          *engine.Engine
	sessions        *door.Server

	notReady  atomic.Pointer[error] // why the exchange takes no orders; nil when it does
	running   sync.WaitGroup        // the goroutines below
	exit      func(status int)      // os.Exit, except in tests
	ended     chan error            // what ended by itself, and should not have
	unproject context.CancelFunc    // ends the projector
	unfollow  context.CancelFunc    // ends the feed and the view
}

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// newServer returns a server that has not started.
func newServer(c *settings.Config, log *slog.Logger, level *slog.LevelVar) *server {
	s := &server{config: c, log: log, level: level, metrics: newMetrics(), exit: os.Exit,
		ended: make(chan error, 8), unproject: func() {}, unfollow: func() {}}
	s.member = newMember(s)
	return s
}

// serve runs the exchange until ctx ends, and then stops it in order. An error
// says why it could not start, or what made it stop; it has been logged.
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
	if s.member.beganAgain() { // the service manager counts from when it was told that we are ready
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
		err = nil // stopped while it was starting, or was to begin again
	}
	// The reason comes first: what a stop logs is not about it.
	told := err
	if told != nil {
		s.log.Error("the exchange has stopped", "error", told)
	}
	manager.Tell("STOPPING=1")
	s.setNotReady(errStopping)
	if stopErr := s.stop(); told == nil && stopErr != nil {
		err = stopErr
		s.log.Error("the exchange has stopped", "error", err)
	}
	return err
}

// runUntil reads the settings again when that is asked for, until ctx ends, or with what
// ends the exchange.
func (s *server) runUntil(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-reload:
			if terminalGone(os.Stderr) {
				s.log.Info("stopping: the terminal has gone")
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

// start brings everything up. What it has started when an error ends it, stop ends.
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
	// Before the database is touched: its schema would be brought up to date.
	if err = journal.CheckVersion(s.config.JournalDir(), exchange.EventVersion); err != nil {
		return err
	}
	if err = s.startSecurity(); err != nil {
		return err
	}
	// Both addresses before a database, whose start may take long, or make one.
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

// startHTTP serves the HTTP side at an address, nil for none: from here on people can see what is going on.
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
		Admit: func(ctx context.Context, frameBytes int) (func(), error) {
			return s.sessions.Admit(ctx, frameBytes)
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

// codecOf is the protocol that clients speak, over HTTP or, otherwise, over TCP.
func (s *server) codecOf(http bool) door.Codec {
	return door.Adapt(wire.XML{Bare: s.config.BareReplies, HTTP: http})
}

// startSessions listens for clients, and declares the exchange ready.
func (s *server) startSessions() error {
	now := s.settings() // a standby may have reloaded them
	s.sessions = door.New(s.engine, door.Options{
		FrameBytesMax: s.config.FrameBytesMax, ReplyBytesMax: s.config.ReplyBytesMax, MemoryMax: s.config.MemoryMax,
		ConnectionsMax: s.connections().XML,
		IdleTimeout:    now.IdleTimeout, FrameTimeout: now.FrameTimeout, WriteTimeout: now.WriteTimeout,
		TLS: s.guards.tls(), Tokens: s.guards.tokens, View: s.view,
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

// announce logs the one line that names every address.
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

// stop ends in order what was started: frames that are in are finished, what was
// answered is brought to Postgres, within the stop timeout.
func (s *server) stop() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.settings().StopTimeout)
	defer cancel()
	overdue := s.abandonAfter(s.settings().StopTimeout + stopGrace)
	defer overdue.Stop() // at the latest
	if s.engine != nil {
		defer context.AfterFunc(ctx, s.engine.Interrupt)() // long frames and orders end with the time for the stop
	}
	s.member.stopCampaigning()
	s.endClients(ctx)
	s.xmlAddr.Close()
	err = s.member.leave(ctx)
	s.unfollow() // which ends the streams, for which the HTTP side would wait
	if s.http != nil {
		if s.http.Shutdown(ctx) != nil {
			s.http.Close()
		}
	}
	if s.binance != nil {
		s.binance.Close()
	}
	came := s.member.came() // what the state came to, if it is what the journal says
	if s.engine != nil {
		s.engine.Close()
		if s.journal.Err() == nil && s.member.tellsAll() {
			came = []any{"seq", cmp.Or(s.member.last(), s.journal.Appended()), "digest", recovery.Digest(s.engine.State())}
		}
	}
	if s.projector != nil && s.journal.Err() == nil {
		last := s.journal.Appended()
		if waitErr := s.catchUp(ctx, last); waitErr != nil {
			s.log.Warn("Postgres is not up to date; the next start brings it there",
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
	overdue.Stop() // a local Postgres has a time of its own
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
