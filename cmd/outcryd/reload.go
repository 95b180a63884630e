package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"outcry/internal/session"
)

// prepareReload takes over settings in two steps, so that all parts change or none. It
// makes ready what can fail, such as reading a certificate, and returns what puts that
// in force. An error says why it cannot be, and then nothing has changed.
type prepareReload func(c *config) (apply func(), err error)

// reloads are what can change while the server runs.
type reloads struct {
	settings atomic.Pointer[config] // as read last; nil before the first reload

	// mu guards what follows.
	mu      sync.Mutex
	parts   []prepareReload
	flags   map[string]bool    // that the parts take over
	running map[string]setting // what is in force
}

// onReload registers a part of the server that takes over settings while it runs, and
// the flags that it takes over: every reload calls prepare, whether these have changed
// or not, since files that they name may have. It may be called from any goroutine.
func (s *server) onReload(prepare prepareReload, flags ...string) {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	s.reloads.parts = append(s.reloads.parts, prepare)
	if s.reloads.flags == nil {
		s.reloads.flags = map[string]bool{"log-level": true, "stop-timeout": true}
	}
	for _, f := range flags {
		s.reloads.flags[f] = true
	}
}

// settings returns the settings as read last. Of these only the flags that onReload
// names have changed since the start. It may be called from any goroutine.
func (s *server) settings() *config {
	if c := s.reloads.settings.Load(); c != nil {
		return c
	}
	return s.config
}

// listenForReload returns the signals that ask for a reload, and what ends that.
func listenForReload() (asked <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// terminalGone reports whether f is a terminal that nobody is at any more. A terminal
// says so with the same signal that asks for a reload.
func terminalGone(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return errors.Is(err, unix.EIO)
}

// reload reads all settings again and takes over what can change while the server
// runs, or nothing where something is wrong. It logs which.
func (s *server) reload() {
	s.manager.tell("RELOADING=1", monotonic())
	defer func() { s.manager.tell("READY=1", s.status()) }()
	before := s.settings().logLevel
	changed, restart, err := s.tryReload()
	s.metrics.reload.done(err)
	if err != nil {
		s.log.Error("the settings are not taken over, and nothing has changed", "error", err)
		return
	}
	if after := s.settings().logLevel; after != before { // else what PUT /loglevel set stays
		s.level.Set(min(s.level.Level(), after)) // until the lines below are logged
		defer s.level.Set(after)
	}
	s.log.Info("the settings have been read again", "changed", changed)
	if len(restart) > 0 {
		s.log.Warn("settings have changed that need a restart", "settings", restart)
	}
	s.warnOfDescriptors()
	for _, warning := range s.settings().warnings {
		s.log.Warn("a setting is likely a mistake", "warning", warning)
	}
}

// tryReload is reload without a word. It returns what is in force now and was not, and
// the flags that differ and are not in force.
func (s *server) tryReload() (changed, restart []string, err error) {
	c, err := parseConfig(s.config.args, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	r := &s.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	var applies []func()
	for _, prepare := range r.parts {
		apply, err := prepare(c)
		if err != nil {
			return nil, nil, err
		}
		applies = append(applies, apply)
	}
	for _, apply := range applies {
		apply()
	}
	r.settings.Store(c)
	if r.running == nil {
		r.running = maps.Clone(s.config.settings)
	}
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		was, is := r.running[name], c.settings[name]
		switch {
		case was.value == is.value:
		case r.flags[name]:
			changed = append(changed, fmt.Sprintf("%s: %s, was %s", name, shown(name, is.value), shown(name, was.value)))
			r.running[name] = is
		default:
			restart = append(restart, name)
		}
	}
	return changed, restart, nil
}

// reloadGateway takes over limits of connections.
func (s *server) reloadGateway(c *config) (func(), error) {
	return func() {
		s.gateway.SetLimits(session.Limits{ConnectionsMax: c.connectionsWithin(openFilesMax()).xml, IdleTimeout: c.idleTimeout,
			FrameTimeout: c.frameTimeout, WriteTimeout: c.writeTimeout})
	}, nil
}

// reloadEngine takes over limits of memory, and of what clients may make.
func (s *server) reloadEngine(c *config) (func(), error) {
	return func() { s.engine.SetLimits(c.engineLimits()) }, nil
}

// reloadHTTP takes over limits of the HTTP side.
func (s *server) reloadHTTP(c *config) (func(), error) {
	return func() {
		s.market.SetReadersMax(c.readersMax)
		s.httpConnections.SetMax(c.connectionsWithin(openFilesMax()).http)
	}, nil
}

// monotonic returns the assignment that tells a service manager when a reload began.
func monotonic() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)
}

// reloadMetrics tell how the last reload went. A start counts as one.
type reloadMetrics struct {
	taken atomic.Bool // the settings
	time  prometheus.Gauge
}

func newReloadMetrics() *reloadMetrics {
	m := &reloadMetrics{time: prometheus.NewGauge(prometheus.GaugeOpts{Name: "outcry_config_last_reload_success_timestamp_seconds",
		Help: "When settings were taken over last, at a start or by SIGHUP, in seconds since the Unix epoch."})}
	m.done(nil)
	return m
}

// done notes how a reload went.
func (m *reloadMetrics) done(err error) {
	m.taken.Store(err == nil)
	if err == nil {
		m.time.SetToCurrentTime()
	}
}
