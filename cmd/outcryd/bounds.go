package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/operate/settings"
)

// limitMemory applies --memory-limit, unless GOMEMLIMIT is set in the environment.
func limitMemory(c *settings.Config, log *slog.Logger) {
	limit, of := c.MemoryLimit.Bytes(os.ReadFile)
	switch text := os.Getenv("GOMEMLIMIT"); {
	case text != "":
		log.Info("the memory limit is from the environment, which overrides --memory-limit", "GOMEMLIMIT", text)
	case limit == 0:
		debug.SetMemoryLimit(math.MaxInt64)
		log.Info("there is no memory limit")
	default:
		debug.SetMemoryLimit(limit)
		log.Info("the memory limit is set", "bytes", limit, "of", of)
	}
	if excess := c.Excess(); excess != "" {
		log.Warn("the memory bounds exceed the limit", "excess", excess)
	}
}

// reloadMemory applies a changed memory limit.
func (s *server) reloadMemory(c *settings.Config) (func(), error) {
	return func() { limitMemory(c, s.log) }, nil
}

// engineLimits returns the engine's limits, which a reload may change.
func engineLimits(c *settings.Config) engine.Limits {
	return engine.Limits{
		ClosedOrdersMax: c.ClosedOrdersMax, BacklogMax: c.LagMax, SymbolsMax: c.SymbolsMax, AccountsMax: c.AccountsMax,
		OpenOrdersMax: c.OpenOrdersMax, AccountOpenOrdersMax: c.AccountOpenOrdersMax,
		OrderValueMin: exchange.Cash(c.OrderValueMin),
	}
}
