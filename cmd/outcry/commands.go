package main

import (
	"slices"

	"outcry/cmd/internal/cli"
)

// commands returns the table of commands, in the order of help: commands that trade, that inspect and check, and
// that operate a running exchange.
func commands() []cli.Command {
	all := append(tradeCommands(), localCommands()...)
	all = append(append(all, operateCommands()...), clusterCommands()...)
	return all
}

const refText = `
A command with a ref is executed at most once, however often it is sent. Without --ref, outcry
makes a new ref, and sends the command again with it if the connection breaks.`

// tradeCommands returns the commands that use the XML port.
func tradeCommands() []cli.Command {
	return slices.Concat(placeCommands(), orderCommands(), frameCommands())
}

// placeCommands returns the commands that make accounts and symbols and deposit shares.
func placeCommands() []cli.Command {
	return []cli.Command{
		{Name: "account", Reaches: cli.XMLSide, Summary: "open an account, or show what it has",
			Arguments: []cli.Argument{cli.AccountWord,
				{Name: "BALANCE", Help: "opening balance in dollars, 0 or more; without it the account is shown", Optional: true}},
			Text: `Opening an account needs a token of scope admin if the exchange requires tokens. What is held
for open orders is shown beside what is free.` + refText,
			Examples: []string{"account 1 20000", "account 1"}, Prepare: trading(account, refOfNew)},
		{Name: "symbol", Reaches: cli.EitherSide, Summary: "create a symbol, or change its rules",
			Arguments: []cli.Argument{cli.SymWord}, Text: symbolText,
			Examples: []string{"symbol SPY", "symbol SPY --tick 0.05 --band 20%"}, Prepare: symbol},
		{Name: "place", Reaches: cli.XMLSide, Summary: "deposit shares with an account",
			Arguments: []cli.Argument{cli.AccountWord, cli.SymWord, cli.SharesWord},
			Text: `Creates the symbol if it does not exist. SYM may also come before ACCOUNT, as in earlier
versions, if only one of the two is made of digits. If both are, name the symbol with --sym.` + refText,
			Examples: []string{"place 2 SPY 500", "place 2 --sym 600000 500"}, Prepare: deposit},
	}
}

// orderCommands returns the commands for an account's orders.
func orderCommands() []cli.Command {
	return []cli.Command{
		{Name: "buy", Reaches: cli.XMLSide, Summary: "place an order to buy",
			Arguments: []cli.Argument{cli.AccountWord, cli.SymWord, cli.SharesWord,
				{Name: "LIMIT", Help: "highest price per share; may be left out with --market", Freed: "market"}},
			Text:     "The order executes at once as far as it can; the rest stays open." + refText,
			Examples: []string{"buy 1 SPY 100 150", "buy --ref monday-1 1 SPY 100 150", "buy --market --full 1 SPY 100"},
			Prepare:  order("buy")},
		{Name: "sell", Reaches: cli.XMLSide, Summary: "place an order to sell",
			Arguments: []cli.Argument{cli.AccountWord, cli.SymWord, cli.SharesWord,
				{Name: "LIMIT", Help: "lowest price per share; may be left out with --market", Freed: "market"}},
			Text:     "The order executes at once as far as it can; the rest stays open." + refText,
			Examples: []string{"sell 2 SPY 100 123.45", "sell --post 2 SPY 100 123.45"}, Prepare: order("sell")},
		{Name: "amend", Reaches: cli.XMLSide, Summary: "change the amount or the limit of an order",
			Arguments: []cli.Argument{cli.AccountWord, cli.OrderWord}, Text: amendText,
			Examples: []string{"amend 1 2 --amount 60", "amend --ref monday-1 1 --limit 151"}, Prepare: amend},
		{Name: "query", Reaches: cli.XMLSide, Summary: "show an order",
			Arguments: []cli.Argument{cli.AccountWord, cli.OrderWord},
			Examples:  []string{"query 1 2", "query --ref monday-1 1"}, Prepare: trading(queryOrder, refOfOrder)},
		{Name: "cancel", Reaches: cli.XMLSide, Summary: "cancel the open part of an order, or all orders",
			Arguments: []cli.Argument{cli.AccountWord, {Name: "ORDER", Help: "number of the order; left out with --ref or --all",
				Flag: "ref,all"}},
			Text:     "Operators can cancel all orders of any account with outcry cancel-all.",
			Examples: []string{"cancel 1 2", "cancel --ref monday-1 1", "cancel --all 1"}, Prepare: cancel},
		{Name: "cancel-after", Reaches: cli.XMLSide,
			Summary:   "arm a dead man's switch: cancel all of an account's orders unless renewed in time",
			Arguments: []cli.Argument{cli.AccountWord, {Name: "SECONDS", Help: "1 to 86400; 0 turns it off"}},
			Text:      "Each call restarts the timer. Time also passes while the exchange is down.",
			Examples:  []string{"cancel-after 1 60", "cancel-after 1 0"}, Prepare: trading(cancelAfter, noRef)},
		{Name: "orders", Reaches: cli.XMLSide, Summary: "show the open orders of an account",
			Arguments: []cli.Argument{cli.AccountWord, cli.OnlySym},
			Examples:  []string{"orders 1", "orders 1 SPY"}, Prepare: listOrders},
		{Name: "fills", Reaches: cli.XMLSide, Summary: "show the newest executions of an account",
			Arguments: []cli.Argument{cli.AccountWord}, Text: "Shows up to 1,000 executions, numbered 1, 2, 3 without gaps.",
			Examples: []string{"fills 1", "fills 1 --after 0"}, Prepare: listFills},
	}
}

// frameCommands returns the command that sends a whole frame of XML.
func frameCommands() []cli.Command {
	return []cli.Command{
		{Name: "send", Reaches: cli.XMLSide, Summary: "send the XML of a file as one frame, and print the reply",
			Arguments: []cli.Argument{{Name: "FILE", Help: "file with the XML; - for standard input", File: true}},
			Text: `After an exit status of 3 (no reply), send the file again only if everything in it has a ref:
otherwise it may be executed twice.`,
			Examples: []string{"send frame.xml"}, Prepare: sendFile},
	}
}

const amendText = `The amount is the new total, including the executed part. A smaller amount at the same limit
keeps the order's place in the queue. Any other change replaces the order with a new one, which
comes last at its limit.

An amend is executed at most once, however often it is sent: without --new-ref, outcry makes
a new ref, and sends the amend again with it if the connection breaks.`

const symbolText = `Without flags, a symbol that exists stays unchanged. With flags, an operator changes its rules
over the HTTP side; rules that no flag names stay unchanged. A new tick is refused while an
order rests at a limit that is not a multiple of it. Deposits need not be multiples of the lot.`

// localCommands returns the commands that work on the exchange's machine.
func localCommands() []cli.Command {
	file := cli.Argument{Name: "FILE", Help: "the backup; - for standard output", File: true}
	return []cli.Command{
		{Name: "journal", Summary: "print the journal of a data directory",
			Arguments: []cli.Argument{{Name: "DIR", Help: "data directory, or the journal in it", File: true}},
			Text:      "Changes nothing, and works while the exchange runs.",
			Examples:  []string{"journal outcry-data"}, Prepare: prepareJournal},
		{Name: "verify", Summary: "check a data directory and its database",
			Arguments: []cli.Argument{
				{Name: "DIR", Help: "data directory; that of --data if left out", Optional: true, File: true}},
			Text: verifyText, Examples: []string{"verify outcry-data"}, Prepare: prepareVerify},
		{Name: "backup", Summary: "take a backup of an exchange, which may be running",
			Arguments: []cli.Argument{file}, Text: backupText,
			Examples: []string{"backup --data /var/lib/outcry monday.backup"}, Prepare: prepareBackup},
		{Name: "restore", Summary: "restore a backup into an empty directory and database",
			Arguments: []cli.Argument{{Name: "FILE", Help: "the backup", File: true}}, Text: restoreText,
			Examples: []string{"restore --check monday.backup", "restore --data /srv/outcry monday.backup"},
			Prepare:  prepareRestore},
		{Name: "doctor", Reaches: cli.HTTPSide, Summary: "check the machine, the disk and the database",
			Text: doctorText, Examples: []string{"doctor --data /var/lib/outcry --http localhost"}, Prepare: prepareDoctor},
		{Name: "token add", Summary: "make a token", Text: tokenAddText,
			Examples: []string{"token add --scope account:1 --expires 720h --note alice", "token add --hmac 1 --note bot"},
			Prepare:  tokenAdd},
		{Name: "token list", Summary: "list the tokens, without their secret parts",
			Examples: []string{"token list"}, Prepare: tokenList},
		{Name: "token revoke", Summary: "revoke a token",
			Arguments: []cli.Argument{{Name: "ID", Help: "middle part of the token, or the key, as token list shows it"}},
			Text:      "Within a second, a running exchange closes the connections that sent the token.",
			Examples:  []string{"token revoke 0123456789abcdef"}, Prepare: tokenRevoke},
	}
}

// operateCommands returns the commands that use the HTTP side.
func operateCommands() []cli.Command { return append(marketCommands(), customerCommands()...) }

// marketCommands returns the commands for the exchange and its symbols.
func marketCommands() []cli.Command {
	return []cli.Command{
		{Name: "status", Reaches: cli.HTTPSide, Summary: "show the state of the exchange",
			Text:     "The exit status is 1 while it accepts no orders, and if it cannot be reached.",
			Examples: []string{"status"}, Prepare: onLeader((*operator).status)},
		{Name: "halt", Reaches: cli.HTTPSide, Summary: "reject orders for a symbol from now on",
			Arguments: []cli.Argument{cli.SymWord,
				{Name: "REASON", Help: "up to 200 characters, which everyone can read", Optional: true, Many: true}},
			Text: `Orders for the symbol are rejected, with the reason, until outcry resume. Cancels, queries
and deposits work, and open orders keep their places. A symbol that is already halted
keeps its first reason.`,
			Examples: []string{"halt SPY news pending"}, Prepare: onLeader((*operator).halt)},
		{Name: "resume", Reaches: cli.HTTPSide, Summary: "accept orders for a symbol again",
			Arguments: []cli.Argument{cli.SymWord}, Text: "If the symbol is not halted, nothing changes.",
			Examples: []string{"resume SPY"}, Prepare: onLeader((*operator).resume)},
	}
}

// customerCommands returns the commands for an account's rules and blocks.
func customerCommands() []cli.Command {
	return []cli.Command{
		{Name: "cancel-all", Reaches: cli.HTTPSide, Summary: "cancel all open orders of an account",
			Arguments: []cli.Argument{cli.AccountWord, cli.OnlySym},
			Text: `Either all of them are canceled at the same moment, or none. The account can still
place new orders.`,
			Examples: []string{"cancel-all 1", "cancel-all 1 SPY"}, Prepare: cancelAllOrders},
		{Name: "block", Reaches: cli.HTTPSide, Summary: "reject orders of an account from now on, and cancel what is open",
			Arguments: []cli.Argument{cli.AccountWord,
				{Name: "REASON", Help: "up to 200 characters, which the account can read", Optional: true, Many: true}},
			Text: `Orders and amends of the account are rejected, with the reason, until outcry unblock. Cancels
and queries work. Its open orders are canceled right afterwards.`,
			Examples: []string{"block 1 suspected fraud"}, Prepare: onLeader((*operator).block)},
		{Name: "unblock", Reaches: cli.HTTPSide, Summary: "accept orders of an account again",
			Arguments: []cli.Argument{cli.AccountWord}, Text: "If the account is not blocked, nothing changes.",
			Examples: []string{"unblock 1"}, Prepare: onLeader((*operator).unblock)},
		{Name: "limits", Reaches: cli.HTTPSide, Summary: "show or change the limits of an account's orders",
			Arguments: []cli.Argument{cli.AccountWord},
			Text:      "Limits without a flag do not change, nor do open orders.",
			Examples:  []string{"limits 1", "limits 1 --shares 1000 --open 50", "limits 1 --notional none"}, Prepare: limits},
	}
}

// clusterCommands returns the commands for a cluster of exchanges.
func clusterCommands() []cli.Command {
	node := cli.Argument{Name: "N", Help: "number of the node"}
	address := cli.Argument{Name: "ADDRESS", Help: "HOST:PORT where the other nodes reach it"}
	optional := address
	optional.Optional, optional.Help = true, optional.Help+"; unchanged if left out"
	return []cli.Command{
		{Name: "cluster status", Reaches: cli.HTTPSide, Summary: "show the nodes of a cluster, as each of them sees the " +
			"cluster",
			Text: clusterStatusText, Examples: []string{"cluster status --http a,b,c"},
			Prepare: operation((*operator).clusterStatus)},
		{Name: "cluster transfer", Reaches: cli.HTTPSide, Summary: "hand over the leadership",
			Arguments: []cli.Argument{
				{Name: "N", Help: "node that becomes leader; the most advanced standby if left out", Optional: true}},
			Examples: []string{"cluster transfer", "cluster transfer 2"}, Prepare: onLeader((*operator).transfer)},
		{Name: "cluster add", Reaches: cli.HTTPSide, Summary: "add a new node",
			Arguments: []cli.Argument{node, address}, Text: clusterAddText,
			Examples: []string{"cluster add 4 10.0.0.4:12347"}, Prepare: onLeader((*operator).addNode)},
		{Name: "cluster remove", Reaches: cli.HTTPSide, Summary: "remove a node permanently",
			Arguments: []cli.Argument{node}, Text: "Stop it first. Its directory can never be used again, under any number.",
			Examples: []string{"cluster remove 3"}, Prepare: onLeader((*operator).removeNode)},
		{Name: "cluster replace", Reaches: cli.HTTPSide, Summary: "replace a node that has lost its disk",
			Arguments: []cli.Argument{node, optional}, Text: clusterReplaceText,
			Examples: []string{"cluster replace 3"}, Prepare: onLeader((*operator).replaceNode)},
		{Name: "cluster rescue", Summary: "make a stopped node the first of a new cluster, or a server without a cluster",
			Arguments: []cli.Argument{node,
				{Name: "DIR", Help: "its data directory; that of --data if left out", Optional: true, File: true}},
			Text: clusterRescueText, Examples: []string{"cluster rescue 2 /var/lib/outcry",
				"cluster rescue --alone 2 /var/lib/outcry"}, Prepare: prepareRescue},
		{Name: "cluster try", Summary: "run a trial cluster of three nodes on this machine",
			Text: tryText, Examples: []string{"cluster try", "cluster try --dir /tmp/three --base-port 14000"},
			Prepare: prepareTry},
	}
}
