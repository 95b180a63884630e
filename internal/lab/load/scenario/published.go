package scenario

import (
	"math/rand/v2"

	"outcry/internal/lab/load"
)

// all lists the experiments that earlier systems of this protocol published, and our own.
var all = []Scenario{
	{
		Name: "cores", About: "one client; a request is a create, and then a frame with order, query and cancel",
		Published: "176, 181 and 184 requests/s on 1, 2 and 4 cores", frames: 2,
		Defaults: Params{Clients: 1, Depth: 1, Requests: 1000}, Uses: []string{"clients", "requests"},
		prepare: ownMarket, source: newPairs,
	}, {
		Name: "threads", About: "the same requests from 64 clients, each with a connection, by threads of the server that " +
			"share all processors",
		Published: "figures are not known", frames: 2, connect: true,
		Defaults: Params{Clients: 64, Requests: 20}, Uses: []string{"clients", "requests"},
		prepare: ownMarket, source: newPairs,
	}, {
		Name: "burst", About: "the same request from many clients at once, each with a connection",
		Published: "550 requests/s beyond 5,000 clients", frames: 2, connect: true,
		Defaults: Params{Clients: 5000, Requests: 1, Accounts: 50, Symbols: 10},
		Uses:     []string{"clients", "requests", "accounts", "symbols"},
		prepare:  orderEach, source: newPairs,
	}, {
		Name: "mix5", About: "five requests at random, each over a connection of its own, for two accounts that all " +
			"clients share: two creates, buy and query, sell and query, buy, query and cancel",
		Published: "362, 603, 623 and 512 requests/s from 4, 20, 50 and 200 threads; 2 threads with 1,000 requests each " +
			"took 4.7 to 6.3 s on 1 and 2 cores, about 1 s on 3 and 4",
		Defaults: Params{Clients: 20, Requests: 100}, Uses: []string{"clients", "requests", "duration"},
		prepare: twoAccounts, source: newMix, connect: true,
	}, {
		Name: "mix5-persistent", About: "the same over connections that stay, with an account for each client",
		Defaults: Params{Clients: 20, Depth: 1, Requests: 1000}, Uses: []string{"clients", "requests", "duration"},
		prepare: ownMarket, source: newMix,
	}, {
		Name: "populate", About: "users with three positions and three orders each, one frame after another",
		Published: "10,000 users in 852, 580 and 400 s on 1, 2 and 4 cores in its repository; × 1.5 for each doubling in " +
			"its text",
		Defaults: Params{Clients: 1, Depth: 1, Requests: 10_000}, Uses: []string{"clients", "depth", "requests"},
		source: newUsers,
	}, {
		Name: "populate-connect", About: "the same from 16 clients, with a connection for each frame",
		Defaults: Params{Clients: 16, Requests: 625}, Uses: []string{"clients", "requests"},
		source: newUsers, connect: true,
	}, {
		Name: "query10", About: "ten queries a request, 4,000 requests in all",
		Published: "35.7 s over one connection, 36.8 s over 16; figures over four, with and without pauses, and of its " +
			"second server are not known",
		Defaults: Params{Clients: 16, Depth: 1, Requests: 250, PerFrame: 10, Accounts: 1000, Symbols: 10, Orders: 30_000},
		Uses:     []string{"clients", "depth", "requests", "per_frame", "orders", "duration", "pause"},
		prepare:  restingMarket, source: newQueries,
	}, {
		Name: "query81", About: "81 clients, each 1,000 queries in a loop",
		Published: "88, 70 and 61 s on 1, 2 and 4 cores; 44 s at best",
		Defaults:  Params{Clients: 81, Depth: 1, Requests: 1000, PerFrame: 1, Accounts: 100, Symbols: 10, Orders: 10_000},
		Uses:      []string{"clients", "depth", "requests", "orders", "duration"},
		prepare:   restingMarket, source: newQueries,
	}, {
		Name: "accounts", About: "accounts are opened by many clients at once, each with a connection",
		Published: "from 1,000, 5,000 and 10,000 clients the latency fell up to 3 cores and rose at 4",
		Defaults:  Params{Clients: 5000, Requests: 1}, Uses: []string{"clients", "requests"},
		source: newAccounts, connect: true,
	}, {
		Name: "market", About: "60 % passive orders near a moving price, 25 % cancels, 15 % crossing orders, over symbols " +
			"with a Zipf weight",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 100, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "per_frame"},
		prepare:  openMarket, source: func(r *Run, n int) load.Source { return newTrader(r, n, r.weights.draw) },
	}, {
		Name: "steady", About: "the same flow with crossing orders that execute against any resting order: the books keep " +
			"their " +
			"size, however long it runs",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 100, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "per_frame"},
		prepare:  openMarket, source: newSteadyTrader,
	}, {
		Name: "hot", About: "the same flow in one symbol",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 1, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "per_frame"},
		prepare:  openMarket, source: func(r *Run, n int) load.Source { return newTrader(r, n, uniform(1)) },
	}, {
		Name: "wide", About: "the same flow over 10,000 symbols, evenly",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 16, Symbols: 10_000, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "per_frame"},
		prepare:  openMarket, source: func(r *Run, n int) load.Source { return newTrader(r, n, uniform(r.Params.Symbols)) },
	}, {
		Name: "deep", About: "the same flow with a million orders that rest",
		Defaults: Params{Clients: 64, Depth: 1, Accounts: 64, Symbols: 10, Orders: 1_000_000, PerFrame: 1},
		Uses:     []string{"clients", "depth", "requests", "duration", "rate", "accounts", "symbols", "orders", "per_frame"},
		prepare:  restingMarket, source: func(r *Run, n int) load.Source {
			return newTrader(r, n, uniform(r.Params.Symbols))
		},
	},
}

// uniform returns a function that draws each of n symbols with equal probability.
func uniform(n int) func(*rand.Rand) int {
	return func(r *rand.Rand) int { return r.IntN(max(n, 1)) }
}
