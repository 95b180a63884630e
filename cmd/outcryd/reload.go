package main

import (
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"outcry/internal/door"
	"outcry/internal/operate/settings"
	"outcry/internal/process/sdnotify"
)

// onReload registers a part of the server that can apply changed settings while it runs. It may be called
// from any goroutine.
func (s *server) onReload(prepare settings.Prepare, parts ...settings.Part) {
	s.reloads.On(prepare, parts...)
}

// settings returns the settings that were read last. They differ from the settings at the start only for parts that
// are registered with onReload. It may be called from any goroutine.
func (s *server) settings() *settings.Config {
	if c := s.reloads.Last(); c != nil {
		return c
	}
	return s.config
}

// listenForReload returns a channel of the signals that request a reload, and a function that stops the
// delivery.
func listenForReload() (asked <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// terminalGone reports whether f is a terminal that has hung up. A hangup sends SIGHUP, the signal that
// also requests a reload.
func terminalGone(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return errors.Is(err, unix.EIO)
}

// reload reads all settings again and applies the settings that can change while the server runs. If any setting is
// invalid, it applies none. It logs the result.
func (s *server) reload() {
	s.manager.Tell("RELOADING=1", sdnotify.Monotonic())
	defer func() { s.manager.Tell("READY=1", s.status()) }()
	before := s.settings().LogLevel
	changed, restart, err := s.tryReload()
	s.metrics.reload.done(err)
	if err != nil {
		s.log.Error("the settings are not applied, and nothing has changed", "error", err)
		return
	}
	if after := s.settings().LogLevel; after != before { // otherwise a level set with PUT /loglevel stays in force
		s.level.Set(min(s.level.Level(), after)) // the more verbose of both levels, until the lines below are logged
		defer s.level.Set(after)
	}
	s.log.Info("the settings are reloaded", "changed", changed)
	if len(restart) > 0 {
		s.log.Warn("changed settings need a restart", "settings", restart)
	}
	s.warnOfDescriptors()
	for _, warning := range s.settings().Warnings {
		s.log.Warn("a setting is probably a mistake", "warning", warning)
	}
}

// tryReload is reload without logging. It returns the settings that have changed, and the changed flags
// that need a restart.
func (s *server) tryReload() (changed, restart []string, err error) {
	return s.reloads.Reload(s.config)
}

// connections returns the connection limits under the current settings.
func (s *server) connections() settings.ConnectionBounds { return s.settings().Connections() }

// warnOfDescriptors logs the connection limits if the limit of open files has lowered them.
func (s *server) warnOfDescriptors() {
	if b := s.connections(); b.Lowered {
		s.log.Warn(settings.ConnectionsLowered, "open_files", b.Files, "reserve", settings.DescriptorReserve,
			"max-connections", b.XML, "max-http-connections", b.HTTP)
	}
}

// reloadSessions applies changed limits of connections.
func (s *server) reloadSessions(c *settings.Config) (func(), error) {
	return func() {
		if s.sessions == nil { // a standby has no sessions yet
			return
		}
		s.sessions.SetLimits(door.Limits{ConnectionsMax: c.Connections().XML, IdleTimeout: c.IdleTimeout,
			FrameTimeout: c.FrameTimeout, WriteTimeout: c.WriteTimeout})
	}, nil
}

// reloadEngine applies changed limits of memory and of what clients may create.
func (s *server) reloadEngine(c *settings.Config) (func(), error) {
	return func() {
		if s.engine != nil {
			s.engine.SetLimits(engineLimits(c))
		}
		s.member.setLimits(c)
	}, nil
}

// reloadHTTP applies changed limits of HTTP.
func (s *server) reloadHTTP(c *settings.Config) (func(), error) {
	return func() {
		s.market.SetReadersMax(c.ReadersMax)
		s.httpConnections.SetMax(c.Connections().HTTP)
	}, nil
}

// reloadMetrics records the result of the last reload. The start counts as a reload.
type reloadMetrics struct {
	taken atomic.Bool // the last reload succeeded
	time  prometheus.Gauge
}

func newReloadMetrics() *reloadMetrics {
	m := &reloadMetrics{time: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outcry_config_last_reload_success_timestamp_seconds",
		Help: "When settings were last applied, at a start or by SIGHUP, in seconds since the Unix epoch."})}
	m.done(nil)
	return m
}

// done records the result of a reload.
func (m *reloadMetrics) done(err error) {
	m.taken.Store(err == nil)
	if err == nil {
		m.time.SetToCurrentTime()
	}
}
