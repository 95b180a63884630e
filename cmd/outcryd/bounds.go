package main

import (
	"flag"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/memory"
)

// bounds are the settings that bound what clients may make, and the memory for it.
type bounds struct {
	symbolsMax           int
	accountsMax          int
	openOrdersMax        int
	accountOpenOrdersMax int
	orderValueMin        orderValue
	memoryLimit          memory.Limit
}

// boundsFlags are their flags, all of which a reload takes over.
var boundsFlags = []string{"max-symbols", "max-accounts", "max-open-orders", "max-open-orders-account", "min-order-value"}

func (b *bounds) flags(f *flag.FlagSet) {
	f.IntVar(&b.symbolsMax, "max-symbols", 100_000, "most `symbols`")
	f.IntVar(&b.accountsMax, "max-accounts", 1_000_000, "most `accounts`")
	f.IntVar(&b.openOrdersMax, "max-open-orders", 4_000_000, "most open `orders` of all accounts together: at it new ones are refused")
	f.IntVar(&b.accountOpenOrdersMax, "max-open-orders-account", 100_000, "most open `orders` of an account: at it new ones are refused")
	f.TextVar(&b.orderValueMin, "min-order-value", orderValue{}, "the least that amount × limit of an order may be, in `dollars`")
	f.TextVar(&b.memoryLimit, "memory-limit", memory.Limit{}, "`bytes` of memory near which the garbage collector works harder; auto is 4/5 of the control group's or the machine's, off is none. GOMEMLIMIT wins")
}

// orderValue is an amount of cash as a setting.
type orderValue exchange.Cash

// UnmarshalText reads a decimal of 0 or more.
func (d *orderValue) UnmarshalText(text []byte) error {
	cash, err := exchange.ParseBalance(text)
	if err != nil {
		return orderValueError(strings.TrimPrefix(err.Error(), "balance "))
	}
	*d = orderValue(cash)
	return nil
}

// MarshalText returns what UnmarshalText reads.
func (d orderValue) MarshalText() ([]byte, error) { return exchange.Cash(d).Append(nil), nil }

// orderValueError says why a setting is no amount of dollars.
type orderValueError string

func (e orderValueError) Error() string { return string(e) }

// needs returns the bounds of what takes memory.
func (c *config) needs() memory.Needs {
	return memory.Needs{OpenOrders: c.openOrdersMax, Accounts: c.accountsMax, Symbols: c.symbolsMax, Large: int64(c.memoryMax)}
}

// excess says that the bounds do not fit the memory that the server is to use, "" if
// they do. GOMEMLIMIT, which wins over --memory-limit, is for the runtime to read.
func (c *config) excess() string {
	limit, of := c.memoryLimit.Bytes(os.ReadFile)
	if os.Getenv("GOMEMLIMIT") != "" {
		limit, of = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	}
	return c.needs().Excess(limit, of)
}

// limitMemory puts --memory-limit in force, unless the environment has GOMEMLIMIT.
func limitMemory(c *config, log *slog.Logger) {
	limit, of := c.memoryLimit.Bytes(os.ReadFile)
	switch text := os.Getenv("GOMEMLIMIT"); {
	case text != "":
		log.Info("the memory limit is that of the environment, which wins over --memory-limit", "GOMEMLIMIT", text)
	case limit == 0:
		debug.SetMemoryLimit(math.MaxInt64)
		log.Info("there is no memory limit")
	default:
		debug.SetMemoryLimit(limit)
		log.Info("the memory limit is set", "bytes", limit, "of", of)
	}
	if excess := c.excess(); excess != "" {
		log.Warn("the bounds of memory do not fit the limit", "excess", excess)
	}
}

// reloadMemory takes over the memory limit.
func (s *server) reloadMemory(c *config) (func(), error) {
	return func() { limitMemory(c, s.log) }, nil
}

// engineLimits returns the limits of the engine that a reload may change.
func (c *config) engineLimits() engine.Limits {
	return engine.Limits{ClosedOrdersMax: c.closedOrdersMax, BacklogMax: c.lagMax, SymbolsMax: c.symbolsMax, AccountsMax: c.accountsMax,
		OpenOrdersMax: c.openOrdersMax, AccountOpenOrdersMax: c.accountOpenOrdersMax, OrderValueMin: exchange.Cash(c.orderValueMin)}
}
