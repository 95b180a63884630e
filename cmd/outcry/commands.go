package main

import "slices"

// commands returns the table of commands, in the order of help: those that trade, those
// that look and check, and those that operate a running exchange.
func commands() []command {
	all := append(tradeCommands(), localCommands()...)
	all = append(append(all, operateCommands()...), clusterCommands()...)
	all = append(all, gradeCommands()...)
	return append(all, helpCommands()...)
}

const refText = `
What has a ref is done at most once, however often it is sent. Without --ref, outcry makes
a new one, and sends the command again with it while the connection breaks.`

// tradeCommands are those over the XML port.
func tradeCommands() []command {
	return slices.Concat(placeCommands(), orderCommands(), frameCommands())
}

// placeCommands are those that make what orders need.
func placeCommands() []command {
	return []command{
		{name: "account", reaches: xmlSide, summary: "open an account, or show what it has",
			arguments: []argument{accountWord,
				{name: "BALANCE", help: "dollars that it opens with, 0 or more; it is shown if left out", optional: true}},
			text: `To open one needs a token of scope admin if the exchange demands tokens. What is held for
open orders is shown beside what is free.` + refText,
			examples: []string{"account 1 20000", "account 1"}, prepare: trading(account, refOfNew)},
		{name: "symbol", reaches: eitherSide, summary: "create a symbol, or change its rules",
			arguments: []argument{symWord}, text: symbolText,
			examples: []string{"symbol SPY", "symbol SPY --tick 0.05 --band 20%"}, prepare: symbol},
		{name: "place", reaches: xmlSide, summary: "deposit shares with an account",
			arguments: []argument{accountWord, symWord, sharesWord},
			text: `Creates the symbol if there is none. SYM may also come before ACCOUNT, as in earlier
versions, if only one of the two is made of digits. If both are, name the symbol with --sym.` + refText,
			examples: []string{"place 2 SPY 500", "place 2 --sym 600000 500"}, prepare: deposit},
	}
}

// orderCommands are those of an account about its orders.
func orderCommands() []command {
	return []command{
		{name: "buy", reaches: xmlSide, summary: "place an order to buy",
			arguments: []argument{accountWord, symWord, sharesWord,
				{name: "LIMIT", help: "highest price per share; may be left out with --market", freed: "market"}},
			text:     "The order executes at once as far as it can; the rest stays open." + refText,
			examples: []string{"buy 1 SPY 100 150", "buy --ref monday-1 1 SPY 100 150", "buy --market --full 1 SPY 100"},
			prepare:  order("buy")},
		{name: "sell", reaches: xmlSide, summary: "place an order to sell",
			arguments: []argument{accountWord, symWord, sharesWord,
				{name: "LIMIT", help: "lowest price per share; may be left out with --market", freed: "market"}},
			text:     "The order executes at once as far as it can; the rest stays open." + refText,
			examples: []string{"sell 2 SPY 100 123.45", "sell --post 2 SPY 100 123.45"}, prepare: order("sell")},
		{name: "amend", reaches: xmlSide, summary: "change the amount or the limit of an order",
			arguments: []argument{accountWord, orderWord}, text: amendText,
			examples: []string{"amend 1 2 --amount 60", "amend --ref monday-1 1 --limit 151"}, prepare: amend},
		{name: "query", reaches: xmlSide, summary: "show an order",
			arguments: []argument{accountWord, orderWord},
			examples:  []string{"query 1 2", "query --ref monday-1 1"}, prepare: trading(queryOrder, refOfOrder)},
		{name: "cancel", reaches: xmlSide, summary: "cancel what is open of an order, or of all",
			arguments: []argument{accountWord, {name: "ORDER", help: "number of the order; left out with --ref or --all",
				flag: "ref,all"}},
			text:     "Operators cancel all of any account with outcry cancel-all.",
			examples: []string{"cancel 1 2", "cancel --ref monday-1 1", "cancel --all 1"}, prepare: cancel},
		{name: "cancel-after", reaches: xmlSide, summary: "cancel all of an account unless it is told again in time",
			arguments: []argument{accountWord, {name: "SECONDS", help: "1 to 86400; 0 turns it off"}},
			text:      "Each time it is told, the time begins anew. It also passes while the exchange is down.",
			examples:  []string{"cancel-after 1 60", "cancel-after 1 0"}, prepare: trading(cancelAfter, noRef)},
		{name: "orders", reaches: xmlSide, summary: "show the open orders of an account",
			arguments: []argument{accountWord, onlySym},
			examples:  []string{"orders 1", "orders 1 SPY"}, prepare: listOrders},
		{name: "fills", reaches: xmlSide, summary: "show the newest executions of an account",
			arguments: []argument{accountWord}, text: "Up to 1,000, which are numbered 1, 2, 3 without a gap.",
			examples: []string{"fills 1", "fills 1 --after 0"}, prepare: listFills},
	}
}

// frameCommands are those that send many commands.
func frameCommands() []command {
	return []command{
		{name: "send", reaches: xmlSide, summary: "send the XML of a file as one frame, and print the reply",
			arguments: []argument{{name: "FILE", help: "file with the XML; - for standard input", file: true}},
			text: `After an exit status of 3 (no reply), send the file again only if everything in it has a ref:
otherwise it may be done twice.`,
			examples: []string{"send frame.xml"}, prepare: sendFile},
		{name: "demo", reaches: xmlSide, summary: "run a market of bots to look at and trade against",
			text: demoText, examples: []string{"demo --rate 50 --duration 10m"}, prepare: prepareDemo},
		{name: "bench run", reaches: xmlSide, summary: "measure how fast a server of the protocol answers orders",
			text: benchText, examples: []string{"bench run --duration 30s", "bench run --addr a,b,c --rate 500 --json",
				"bench run --addr localhost:9000 --beside --duration 2s",
				"bench run --addr localhost:9000 --beside --experiment mix5"}, prepare: prepareBench},
		{name: "bench echo", summary: "serve echoes: what other servers are compared with",
			text:     "It writes its address, and ends with its standard input.",
			examples: []string{"bench echo --listen 127.0.0.1:9001"}, prepare: prepareBenchEcho},
	}
}

const amendText = `The amount is the new total, with what is executed already. A smaller amount at the same
limit keeps the order's place. Anything else replaces the order by a new one, behind those
that are at its limit already.

An amend is done at most once, however often it is sent: without --new-ref, outcry makes a
new ref, and sends the amend again with it while the connection breaks.`

const symbolText = `A symbol that exists stays as it is. With a flag, an operator changes the rules of one that
exists, over the HTTP side; what no flag names stays as it is. A new tick is refused while
an order rests at a limit that is not a multiple of it. Shares that are placed need not fit
the lot.`

// localCommands are those on the exchange's machine.
func localCommands() []command {
	file := argument{name: "FILE", help: "the backup; - for standard output", file: true}
	return []command{
		{name: "journal", summary: "print the journal of a data directory",
			arguments: []argument{{name: "DIR", help: "data directory, or the journal in it", file: true}},
			text:      "Changes nothing, and works while the exchange runs.",
			examples:  []string{"journal outcry-data"}, prepare: prepareJournal},
		{name: "verify", summary: "check a data directory and its database",
			arguments: []argument{{name: "DIR", help: "data directory; that of --data if left out", optional: true, file: true}},
			text:      verifyText, examples: []string{"verify outcry-data"}, prepare: prepareVerify},
		{name: "backup", summary: "take a backup of an exchange, which may be running",
			arguments: []argument{file}, text: backupText,
			examples: []string{"backup --data /var/lib/outcry monday.backup"}, prepare: prepareBackup},
		{name: "restore", summary: "restore a backup into an empty directory and database",
			arguments: []argument{{name: "FILE", help: "the backup", file: true}}, text: restoreText,
			examples: []string{"restore --check monday.backup", "restore --data /srv/outcry monday.backup"},
			prepare:  prepareRestore},
		{name: "doctor", reaches: httpSide, summary: "check the machine, the disk and the database",
			text: doctorText, examples: []string{"doctor --data /var/lib/outcry --http localhost"}, prepare: prepareDoctor},
		{name: "token add", summary: "make a token", text: tokenAddText,
			examples: []string{"token add --scope account:1 --expires 720h --note alice", "token add --hmac 1 --note bot"},
			prepare:  tokenAdd},
		{name: "token list", summary: "list the tokens, without their secret parts",
			examples: []string{"token list"}, prepare: tokenList},
		{name: "token revoke", summary: "revoke a token",
			arguments: []argument{{name: "ID", help: "middle part of the token, or the key, as token list shows it"}},
			text:      "An exchange that runs ends the connections that have shown it within a second.",
			examples:  []string{"token revoke 0123456789abcdef"}, prepare: tokenRevoke},
		{name: "class new", reaches: xmlSide, summary: "open an account and make a token for each student of a class",
			arguments: []argument{{name: "N", help: "students"}}, text: classNewText,
			examples: []string{"class new 30 --cash 10000 --shares SPY=100"}, prepare: prepareClassNew},
		{name: "class reset", summary: "begin a class anew, and keep the old exchange as a backup",
			text: classResetText, examples: []string{"class reset"}, prepare: prepareClassReset},
	}
}

// operateCommands are those over the HTTP side.
func operateCommands() []command { return append(marketCommands(), customerCommands()...) }

// marketCommands are about the exchange and its symbols.
func marketCommands() []command {
	return []command{
		{name: "status", reaches: httpSide, summary: "show how the exchange is doing",
			text:     "The exit status is 1 while it accepts no orders, and if it cannot be reached.",
			examples: []string{"status"}, prepare: onLeader((*operator).status)},
		{name: "halt", reaches: httpSide, summary: "reject orders for a symbol from now on",
			arguments: []argument{symWord,
				{name: "REASON", help: "up to 200 characters, which everyone can read", optional: true, many: true}},
			text: `Orders for the symbol are rejected, with the reason, until outcry resume. Cancels, queries
and deposits work, and open orders keep their places. A symbol that is halted already stays
so, for its first reason.`,
			examples: []string{"halt SPY news pending"}, prepare: onLeader((*operator).halt)},
		{name: "resume", reaches: httpSide, summary: "accept orders for a symbol again",
			arguments: []argument{symWord}, text: "A symbol that is not halted stays as it is.",
			examples: []string{"resume SPY"}, prepare: onLeader((*operator).resume)},
	}
}

// customerCommands are about an account.
func customerCommands() []command {
	return []command{
		{name: "cancel-all", reaches: httpSide, summary: "cancel all open orders of an account",
			arguments: []argument{accountWord, onlySym},
			text: `All of them are canceled at one moment, or none if that is refused. The account can still
place new orders.`,
			examples: []string{"cancel-all 1", "cancel-all 1 SPY"}, prepare: cancelAllOrders},
		{name: "block", reaches: httpSide, summary: "reject orders of an account from now on, and cancel what is open",
			arguments: []argument{accountWord,
				{name: "REASON", help: "up to 200 characters, which the account can read", optional: true, many: true}},
			text: `Orders and amends of the account are rejected, with the reason, until outcry unblock. Cancels
and queries work. What the account has open is canceled right after.`,
			examples: []string{"block 1 fraud is looked into"}, prepare: onLeader((*operator).block)},
		{name: "unblock", reaches: httpSide, summary: "accept orders of an account again",
			arguments: []argument{accountWord}, text: "An account that is not blocked stays as it is.",
			examples: []string{"unblock 1"}, prepare: onLeader((*operator).unblock)},
		{name: "limits", reaches: httpSide, summary: "show or change what an account may order",
			arguments: []argument{accountWord},
			text:      "What no flag names stays as it is, and so do orders that are open.",
			examples:  []string{"limits 1", "limits 1 --shares 1000 --open 50", "limits 1 --notional none"}, prepare: limits},
	}
}

// clusterCommands are about several exchanges that are one.
func clusterCommands() []command {
	node := argument{name: "N", help: "number of the node"}
	address := argument{name: "ADDRESS", help: "HOST:PORT where the other nodes reach it"}
	optional := address
	optional.optional, optional.help = true, optional.help+"; as before if left out"
	return []command{
		{name: "cluster status", reaches: httpSide, summary: "show the nodes of a cluster, as each of them sees it",
			text: clusterStatusText, examples: []string{"cluster status --http a,b,c"},
			prepare: operation((*operator).clusterStatus)},
		{name: "cluster transfer", reaches: httpSide, summary: "hand over the leadership",
			arguments: []argument{{name: "N", help: "node that is to lead; the furthest standby if left out", optional: true}},
			examples:  []string{"cluster transfer", "cluster transfer 2"}, prepare: onLeader((*operator).transfer)},
		{name: "cluster add", reaches: httpSide, summary: "take a new node in",
			arguments: []argument{node, address}, text: clusterAddText,
			examples: []string{"cluster add 4 10.0.0.4:12347"}, prepare: onLeader((*operator).addNode)},
		{name: "cluster remove", reaches: httpSide, summary: "take a node out for good",
			arguments: []argument{node}, text: "Stop it first. Its directory never comes back under this or another number.",
			examples: []string{"cluster remove 3"}, prepare: onLeader((*operator).removeNode)},
		{name: "cluster replace", reaches: httpSide, summary: "take a node in again that has lost its disk",
			arguments: []argument{node, optional}, text: clusterReplaceText,
			examples: []string{"cluster replace 3"}, prepare: onLeader((*operator).replaceNode)},
		{name: "cluster rescue", summary: "make a stopped node the first of a new cluster, or a server alone",
			arguments: []argument{node,
				{name: "DIR", help: "its data directory; that of --data if left out", optional: true, file: true}},
			text: clusterRescueText, examples: []string{"cluster rescue 2 /var/lib/outcry",
				"cluster rescue --alone 2 /var/lib/outcry"}, prepare: prepareRescue},
		{name: "cluster try", summary: "run a cluster of three nodes on this machine, to look at",
			text: tryText, examples: []string{"cluster try", "cluster try --dir /tmp/three --base-port 14000"},
			prepare: prepareTry},
	}
}

// helpCommands are about outcry itself.
func helpCommands() []command {
	return []command{
		{name: "completion", summary: "print what a shell needs to complete outcry's commands and flags",
			arguments: []argument{{name: "SHELL", help: "bash, zsh or fish"}},
			text: `In bash: source <(outcry completion bash). In zsh, after compinit: source <(outcry completion
zsh). In fish: outcry completion fish | source.`,
			examples: []string{"completion bash"}, prepare: prepareCompletion},
		{name: "help", summary: "show the commands, or one of them",
			arguments: []argument{{name: "COMMAND", help: "the command", optional: true, many: true}},
			examples:  []string{"help buy"}, prepare: prepareHelp},
		{name: "version", summary: "print the version and the commit",
			examples: []string{"version"}, prepare: prepareVersion},
	}
}
