package torture

func dustGrow(r *runner) int64 { return orderBytes * int64(r.size(dustSmall, dustLarge)) }

// attacks are all ways of abuse, by the name of the fault.
var attacks map[string]attack

func allAttacks() map[string]attack {
	return map[string]attack{
		"abuse-frame": {about: "frames whose replies would be many times as large: names of a megabyte, echoed in " +
			"hundreds of errors",
			auth: true, flags: frameFlags, run: (*runner).abuseFrames},
		"abuse-resting": {about: "an account with one dollar places orders until it is refused",
			auth: true, flags: restingFlags, run: (*runner).abuseResting,
			grow: func(r *runner) int64 { return orderBytes * int64(r.size(openSmall, openLarge)) }},
		"abuse-accounts": {about: "accounts are made until there are too many", flags: accountsFlags,
			run:  (*runner).abuseAccounts,
			grow: func(r *runner) int64 { return orderBytes * 2 * int64(r.size(accountsSmall, accountsLarge)) }},
		"abuse-symbols": {about: "symbols are made until there are too many; at rest none has a goroutine",
			flags: symbolsFlags, run: (*runner).abuseSymbols,
			grow: func(r *runner) int64 { return symbolBytes * int64(r.size(symbolsSmall, symbolsLarge)) }},
		"abuse-files": {about: "more idle connections than the server has descriptors, of HTTP without a token, then of XML",
			auth: true, files: func(r *runner) int { return r.idleConnections() - idleBeyond }, run: (*runner).abuseFiles},
		"abuse-bodies": {about: "requests of HTTP whose body does not come", auth: true, run: (*runner).abuseBodies},
		"abuse-floods": {about: "connections that end at once, garbage, requests with two ends", auth: true,
			run: (*runner).abuseFloods},
		"abuse-dust": {about: "orders of the smallest fraction, and a frame of orders each of which meets them all",
			auth: true, flags: dustFlags, run: (*runner).abuseDust, grow: dustGrow},
		"abuse-stop": {about: "SIGTERM while such a frame is executed",
			auth: true, ends: true, flags: stopFlags, run: (*runner).abuseStop, grow: dustGrow},
		"abuse-history": {about: "queries of old orders while Postgres stands still, and an order behind them",
			auth: true, flags: historyFlags, run: (*runner).abuseHistory},
		"abuse-lost": {about: "connections to Postgres are lost, and its sessions live on", run: (*runner).abuseLost},
		"abuse-sessions": {about: "sessions are ended, and the role has timeouts that no batch keeps",
			run: (*runner).abuseSessions},
		"abuse-lock": {about: "a session locks a table as CREATE INDEX does; killed and started meanwhile",
			restarts: true, run: (*runner).abuseLock},
		"abuse-hosts": {about: "requests of foreign hosts, as after DNS rebinding", run: (*runner).abuseHosts},
	}
}
