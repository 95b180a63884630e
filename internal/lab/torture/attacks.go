package torture

import (
	"context"

	"outcry/internal/lab/audit"
)

// attack is one kind of abuse.
type attack struct {
	name      string
	about     string
	auth      bool      // a token that trades for the abuser's accounts is enough
	files     bool      // the server has idleBeyond fewer descriptors than the abuser has connections
	ends      bool      // the attack ends the server
	restarts  bool      // the attack restarts the server, and traders have stopped
	noCreates bool      // traders open no accounts, since accounts are limited
	grow      sized     // additional bytes by which the server may grow
	flags     []setting // flags of the server
	run       func(*server, context.Context) error
}

// sized is a number for small and for large attacks.
type sized struct{ small, large int }

// setting is a numeric flag of the server.
type setting struct {
	format string
	sized
}

// attackFaults returns the faults of a malicious client. A plan may name all of them together as abuse.
func attackFaults() (all []fault[*server]) {
	for _, a := range attacks() {
		all = append(all, fault[*server]{name: a.name, about: a.about, short: 1, long: 2, ends: a.ends, early: true,
			inject: a.inject, attack: &a})
	}
	return all
}

func attacks() []attack {
	dustFlags := []setting{
		{"--max-open-orders-account=%d", sized{dustSmall + audit.BulkAtOnce, dustLarge + audit.BulkAtOnce}},
		{"--segment=%d", sized{dustSegment, 64 << 20}}, {"--stop-timeout=%ds", sized{dustStop, dustStop}}}
	dustGrow := sized{orderBytes * dustSmall, orderBytes * dustLarge}
	return []attack{
		{name: "abuse-frame", about: "frames whose replies would be many times larger: names of a megabyte, echoed in " +
			"hundreds of errors",
			auth: true, flags: []setting{{"--max-reply=%d", sized{frameReplyMax, frameReplyMax}}}, run: (*server).abuseFrames},
		{name: "abuse-resting", about: "an account with one dollar places orders until one is rejected",
			auth: true, flags: []setting{{"--max-open-orders-account=%d", sized{openSmall, openLarge}}},
			run: (*server).abuseResting, grow: sized{orderBytes * openSmall, orderBytes * openLarge}},
		{name: "abuse-accounts", about: "accounts are made until there are too many", noCreates: true,
			flags: []setting{{"--max-accounts=%d", sized{accountsSmall, accountsLarge}}},
			run:   (*server).abuseAccounts, grow: sized{orderBytes * 2 * accountsSmall, orderBytes * 2 * accountsLarge}},
		{name: "abuse-symbols", about: "symbols are made until there are too many; at rest none has a goroutine",
			flags: []setting{{"--max-symbols=%d", sized{symbolsSmall, symbolsLarge}}},
			run:   (*server).abuseSymbols, grow: sized{symbolBytes * symbolsSmall, symbolBytes * symbolsLarge}},
		{name: "abuse-files", about: "more idle connections than the server has descriptors, of HTTP without a token, " +
			"then of XML",
			auth: true, files: true, run: (*server).abuseFiles},
		{name: "abuse-bodies", about: "HTTP requests whose body does not arrive", auth: true, run: (*server).abuseBodies},
		{name: "abuse-floods", about: "connections that end at once, garbage, requests with two lengths", auth: true,
			run: (*server).abuseFloods},
		{name: "abuse-dust", about: "orders of the smallest fraction, and a frame of orders each of which matches them all",
			auth: true, flags: dustFlags[:2], run: (*server).abuseDust, grow: dustGrow},
		{name: "abuse-stop", about: "SIGTERM while such a frame is executed",
			auth: true, ends: true, flags: dustFlags, run: (*server).abuseStop, grow: dustGrow},
		{name: "abuse-history", about: "queries of old orders while Postgres is frozen, and an order after them",
			auth: true, flags: []setting{{"--closed-orders=%d", sized{10, 10}}}, run: (*server).abuseHistory},
		{name: "abuse-lost", about: "connections to Postgres are lost, and its sessions live on", run: (*server).abuseLost},
		{name: "abuse-sessions", about: "sessions are ended, and the role has timeouts that no batch can meet",
			run: (*server).abuseSessions},
		{name: "abuse-lock", about: "a session locks a table as CREATE INDEX does; the exchange is restarted during the lock",
			restarts: true, run: (*server).abuseLock},
		{name: "abuse-hosts", about: "requests with foreign hosts, as after DNS rebinding", run: (*server).abuseHosts},
	}
}

// anyFlags are the settings of every exchange under attack.
var anyFlags = []setting{{"--max-symbols=%d", sized{1_000_000, 1_000_000}},
	{"--max-memory=%d", sized{memorySmall, memoryLarge}}, {"--max-frame=%d", sized{frameSmall, frameLarge}}}
