package settings

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// bound is a row of docs/reference/BOUNDS.md. In its texts, {--max-frame} is replaced by the default of a
// setting, {door.RefusedMax} by a constant of internal/door, {door.writeBytesMax KiB} by a constant
// in bytes, and {admin.idleTimeout min} by a duration in minutes.
type bound struct {
	what  string
	names string // flags, and names in the code
	value string
	at    string // what happens at the bound; ends with limit names of outcry_limit_hits_total
}

// bounds has the tables of the page: the bounds on everything that a client, an operator or a session of the
// database can fill.
var bounds = []struct {
	title string
	rows  []bound
}{
	{"Clients of XML", []bound{
		{"connections", "`--max-connections`", "{--max-connections}",
			"a reply with the reason, then the end; more than {door.RefusedMax} such replies at a time " +
				"(`RefusedMax`): the end alone; `connections`"},
		{"connections that have proved nothing yet, with TLS or tokens", "`--max-connections`", "{--max-connections}",
			"the oldest of them gives way; the handshake has {door.handshakeTimeout}, the token " +
				"{door.AuthTimeout}"},
		{"connections of one token", "`othersShare`", "seven eighths of `--max-connections`",
			"the connection is closed with the reason; other tokens still connect"},
		{"silence", "`--idle-timeout`", "{--idle-timeout}", "the reason, then the end; `idle_timeout`"},
		{"time for a frame to arrive", "`--frame-timeout`", "{--frame-timeout}", "the same; `frame_timeout`"},
		{"time to take replies", "`--write-timeout`", "{--write-timeout} for {door.writeBytesMax KiB}",
			"the connection is cut; `write_timeout`"},
		{"a frame", "`--max-frame`", "{--max-frame}",
			"the reason, then the end; {door.authFrameBytesMax KiB} before a token; `frame`"},
		{"a length line", "`lengthLineMax`", "{wire.lengthLineMax} bytes", "the same; `length_line`"},
		{"elements, depth, attributes of an element", "`ElementsMax`, `depthMax`, `attributesMax`",
			"{wire.ElementsMax}, {wire.depthMax}, {wire.attributesMax}", "an error; the connection stays"},
		{"an erroneous value in a reply", "`echoBytesMax`", "{wire.echoBytesMax} bytes",
			"its first {wire.echoBytesCut} bytes and `…`"},
		{"text of an error", "`errorBytesMax`", "{wire.errorBytesMax} bytes", "cut"},
		{"a reply", "`--max-reply`", "{--max-reply}", "queries that would make it longer get an error that says " +
			"where to read; errors take at most 1,322 bytes an element and 6 a byte of the frame (`ReplyMax`); `reply`"},
		{"memory of large frames and replies", "`--max-memory`", "{--max-memory}",
			"frames wait, and are refused after `--frame-timeout`; queries are refused; `memory`"},
		{"a connection's own memory", "`BatchMemoryMax`", "320 KiB to decode, 64 KiB of a frame, 128 KiB of replies",
			"the connection is not read from; it takes 12 KiB while idle"},
		{"frames whose replies wait for Postgres", "`lateBatchesMax`, `recallsMax`",
			"{door.lateBatchesMax} batches a connection; {door.recallsMax} orders fetched at a time, " +
				"{door.recallTimeout} each", "that connection is not read from; the database \"does not answer now\""},
		{"commands a second", "`--rate-connection`, `--rate-account`", "no limit",
			"the connection is read more slowly; orders and creates are rejected; `rate_connection`, `rate_account`"},
		{"records, fills and cancels that the views have still to take in for a connection; for a token or account",
			"`lagShare`, `lagTogether`", "{door.lagShare}; {door.lagTogether}",
			"the client waits before anything is executed, whatever its protocol; over HTTP, {door.answersMax} requests " +
				"(`answersMax`), {door.slowedMax} of one token or account (`slowedMax`), further ones get 503; a large frame " +
				"that has been read cannot wait, and is refused; above {door.lagMax} (`lagMax`) " +
				"orders and amends that replace are rejected; not for a view that does nothing for {door.hungAfter} " +
				"(`hungAfter`); `followers`"},
		{"wrong tokens of one network", "`guessersMax`", "{auth.guessFree}, then one a second",
			"answered a second later, {auth.guessersMax} at a time"},
	}},
	{"Clients of WebSocket", []bound{
		{"connections", "`--max-connections`", "{--max-connections}, those of XML among them",
			"503 with the reason; of those without a token the oldest gives way, as above"},
		{"a message", "`MessageBytesMax`", "{websocket.MessageBytesMax KiB}, all fragments of it", "close 1009"},
		{"answers that wait to be sent", "`WaitingBytesMax`", "{websocket.WaitingBytesMax MiB}, events among them; " +
			"a frame counts {websocket.FrameCostBytes} bytes more than it has",
			"the connection is not read from; of pongs the newest alone waits"},
		{"events that wait to be sent", "`WaitingBytesMax`", "{websocket.WaitingBytesMax MiB}, answers among them; the same",
			"what waits is dropped; close 4008 with the reason"},
		{"events that can be merged", "`ConflateBytes`", "{websocket.ConflateBytes KiB}", "they are merged"},
		{"silence", "`pingEveryUsual`", "{websocket.pingEveryUsual}, or half of `--idle-timeout` if that is less",
			"a ping; who has not answered until the next one, or has taken nothing of what waits, is cut off"},
		{"time to take what waits and to answer a close", "`closeTimeoutUsual`", "{websocket.closeTimeoutUsual}", "cut off"},
		{"requests under way", "`underWayMax`", "{jsonrpc.underWayMax}", "the connection is not read from"},
		{"requests executed together", "`runMax`", "{jsonrpc.runMax}", "the next are executed behind them"},
		{"time to show a token", "`AuthTimeout`", "{door.AuthTimeout}", "close 4001"},
		{"depth of a message; characters of an id", "`depthMax`, `idCharsMax`", "{jsontext.depthMax}; {jsonrpc.idCharsMax}",
			"an error"},
		{"names in a request; subscriptions", "`channelsMax`, `subscriptionsMax`",
			"{jsonrpc.channelsMax}; {jsonrpc.subscriptionsMax}", "an error"},
		{"entries of a message; pages of a list", "`entriesMax`, `pageMax`", "{jsonrpc.entriesMax}; {jsonrpc.pageMax}",
			"further ones are in the next"},
		{"levels of an answer; fills of an order", "`depthLevelsMax`, `fillsMax`",
			"{jsonrpc.depthLevelsMax} of a side; the newest {exchange.ReportExecutionsMax}",
			"an error; older ones are in `fills.list`"},
		{"levels that change while a reader is behind", "`mergedLevelsMax`", "{jsonrpc.mergedLevelsMax}", "close 4008"},
		{"accounts whose events are kept for a connection", "`watchedMax`", "{jsonrpc.watchedMax}",
			"they are forgotten minutes later, and it begins again"},
		{"time for the database to answer", "`historyTimeout`", "{jsonrpc.historyTimeout}", "`history_unavailable`"},
	}},
	{"HTTP", []bound{
		{"connections", "`--max-http-connections`", "{--max-http-connections}",
			"the one that has waited longest for a request gives way; if all are busy, {admin.OperatorConnectionsMax} " +
				"more (`OperatorConnectionsMax`) may ask `/healthz`, `/readyz`, `/metrics` and `/admin/`; `http_connections`"},
		{"a header; a request; an answer; silence", "`headerTimeout` and others",
			"{admin.headerBytesMax KiB} in {admin.headerTimeout}; {admin.readTimeout}; {admin.writeTimeout}; " +
				"{admin.idleTimeout min}",
			"431, or the end"},
		{"bodies of `POST /xml` that arrive", "`bodiesMax`", "{admin.bodiesMax}, each {admin.smallBodyMax KiB} until " +
			"memory is asked for, {admin.bodyTimeout}", "the oldest is cut off with 503; 408"},
		{"connections with requests of one token", "`othersShare`", "seven eighths of `--max-http-connections`",
			"503; other tokens are answered"},
		{"frames of `POST /xml` that are executed", "`answersMax`, `lateAnswersMax`",
			"{door.answersMax}, and {door.lateAnswersMax} that wait for Postgres", "503, nothing was done"},
		{"another body", "`requestBodyTimeout`", "{admin.requestBodyTimeout}", "the end"},
		{"an operation", "`operateTimeout`", "{admin.operateTimeout}", "503: not known to be done"},
		{"readers of the market data stream", "`--max-stream-readers`",
			"{--max-stream-readers}, each {outcryd.streamWriteTimeout} to take {web.pieceMost KiB}", "503; cut off"},
		{"requests that wait for `min_seq`", "`minSeqWaitsMax`, `awaitTimeout`",
			"{web.minSeqWaitsMax}, for {market.awaitTimeout s}", "503"},
		{"market data answers at a time",
			"`symbolsAnswersMax`, `marketAnswersMax`, `candlesAnswersMax`, `ordersAnswersMax`",
			"{web.symbolsAnswersMax} of symbols, {web.marketAnswersMax} of books, {web.marketAnswersMax} of " +
				"trades, {web.candlesAnswersMax} of candles, {web.ordersAnswersMax} of orders", "503 for that kind"},
		{"entries of an answer", "`symbolsMost`, `depthMost`, `tradesMost`, `CandlesMost`, `executionsMost`",
			"{web.symbolsMost} symbols, {web.depthMost} levels, {web.tradesMost} trades, " +
				"{market.CandlesMost} candles, {web.executionsMost} executions", "400; executions come in pages"},
		{"candles in memory", "`candleSlotsMax`, `candlesMost`",
			"{market.candleSlotsMax} of 144 bytes, {market.candlesMost} of an interval of a symbol; each symbol has " +
				"40 in any case", "older ones are asked of Postgres"},
	}},
	{"Bots made for Binance", []bound{
		{"a request, its query and its body", "`bodyBytesMax`", "{binance.bodyBytesMax KiB}", "413, code -1104"},
		{"an answer", "`requestTimeout`", "{binance.requestTimeout}", "503, code -1000, or -1007 if it may have been done"},
		{"answers about all symbols, or very many orders, at a time", "`largeAnswersMax`",
			"{binance.largeAnswersMax}", "they wait"},
		{"cancels of bots whose client ids are kept for reports", "`cancelNamesMax`", "{binance.cancelNamesMax}",
			"the oldest is reported with an id that is made up"},
		{"entries of an answer", "`listMost`, `depthMost`", "{binance.listMost} orders, trades, candles; " +
			"{binance.depthMost} levels of a side; open orders: all", "cut to that"},
		{"streams of a connection", "`streamsMax`, `userStreamsMax`", "{binance.streamsMax} of the market, " +
			"{binance.userStreamsMax} of accounts", "an error"},
	}},
	{"The exchange", []bound{
		{"open orders of an account", "`--max-open-orders-account`", "{--max-open-orders-account} (28 MB)",
			"its orders are rejected, cancels and queries work; `account_orders`"},
		{"open orders of all", "`--max-open-orders`", "{--max-open-orders} (1.1 GB)", "the same; `open_orders`"},
		{"accounts", "`--max-accounts`", "{--max-accounts}", "creates are rejected; `accounts`"},
		{"symbols", "`--max-symbols`", "{--max-symbols}",
			"the same; a symbol at rest takes 750 bytes and no goroutine; `symbols`"},
		{"value of an order", "`--min-order-value`", "{--min-order-value} dollars", "smaller ones are rejected"},
		{"memory of the process", "`--memory-limit`", "{--memory-limit}",
			"the collector works harder; a start and `outcry doctor` warn if the bounds together exceed it"},
		{"fills of a record", "`FillsMax`, `PartFillsMin`",
			"{exchange.FillsMax}; from {exchange.PartFillsMin} on with a small `--segment`",
			"the order goes on in a further part, [decision 18](../decisions/0018-orders-in-parts.md)"},
		{"room that an order sets aside in the journal", "`claimBytesMax`",
			"{journal.claimBytesMax GiB}: 5.6 million fills or more",
			"it is rejected whole; an order that a start finishes claims it in several goes; `fills`"},
		{"parts of an order that are not synced", "`partsUnsyncedMax`", "{engine.partsUnsyncedMax}", "the order waits"},
		{"tasks at a symbol", "`InboxLen`, `keptMax`", "256; {engine.keptMax} put aside", "the session waits"},
		{"one session's turn at a symbol", "`turnWork`",
			"{engine.turnWork} commands, {engine.fillsPerWork} fills count as one", "the next session has its turn"},
		{"orders that an FOK or a market order looks at, also if it is refused", "`--max-open-orders`, `--min-order-value`",
			"those that it meets, 400,000 in some 10 ms", "the next session has its turn; a least value keeps dust out"},
		{"goroutines of symbols without work", "`awakeMax`", "{engine.awakeMax}, for 2 s", "they end at once"},
		{"orders of a book that a cancel of all visits while it holds shards", "`surveyMax`",
			"{engine.surveyMax}, beside the account's own",
			"a larger book, or one with as many new ids, is surveyed before, in pieces"},
		{"operators who wait for a symbol", "`requestsMax`", "{engine.requestsMax}", "refused: too much waits"},
		{"orders that one record cancels as connections have ended", "`disconnectCancelsMax`",
			"{engine.disconnectCancelsMax}", "further records, between the symbol's other commands"},
		{"`<cancel-all>` of an account", "`cancelAllsMax`", "{engine.cancelAllsMax} a second",
			"refused; `too_many_cancel_alls`"},
		{"`<cancel-after>` of an account while nothing new is taken", "`cancelAllsMax`", "{engine.cancelAllsMax} a second",
			"refused; `no_room` or `database_behind`"},
		{"accounts whose `<cancel-all>` and `<cancel-after>` are remembered", "`--max-accounts`",
			"those of two seconds, 150 bytes each", "none is refused for another one's"},
		{"what there was no room for, tried again", "`keepEvery`", "every {engine.keepEvery s}",
			"one thing to do a symbol and account, however many connections end"},
		{"closed orders, refs in memory", "`--closed-orders`, `--refs`", "{--closed-orders}; {--refs}",
			"older ones are asked of Postgres"},
		{"records that Postgres lacks", "`--max-lag`", "{--max-lag}, some 300 bytes each (450 with a ref)",
			"sessions are slowed down from half of it on, then orders are rejected; `lag`"},
		{"newest records in memory, for Postgres, the views and a standby", "`ringPages`, `ringBytes`, `keptMax`",
			"16,384 of 170 bytes; {trail.ringBytes MiB} of fills, cancels and texts; {exchange.keptMax KiB} a record " +
				"kept for a later one", "older ones are read from the journal's files"},
	}},
	{"Disk, descriptors, Postgres, time", []bound{
		{"the disk", "`--segment`", "{--segment} a segment", "orders are refused, cancels go on in a quarter of a " +
			"segment; [a full disk](../RELIABILITY.md#when-something-fails); `journal_room`, `cancel_room`"},
		{"bytes that wait to be written", "`PendingBytesMax`", "64 MiB", "what appends waits"},
		{"journal that is kept for nodes of a cluster that lag", "`--keep-for-members`", "{--keep-for-members}",
			"a node that lags more is restored from a backup of another"},
		{"descriptors", "`ulimit -n`", "the machine's", "at a start both bounds of connections are lowered to what is " +
			"left after {settings.DescriptorReserve} (`DescriptorReserve`). If none are left, the journal is as on a full " +
			"disk, and readers and accepting wait"},
		{"a backup's wait for tables that no server brings further", "`unservedMax`",
			"{backup.unservedMax}, beside `--wait`", "it ends with the reason"},
		{"a batch of the projector", "`batchRecordsMax`, `batchExecutionsMax`, `batchTimeMax`",
			"{postgres.batchRecordsMax} records, {postgres.batchExecutionsMax} executions, {postgres.batchTimeMax}; " +
				"one is made while one is written",
			"the next batch; after a failure half as many, down to one record"},
		{"a peer that is gone", "`keepaliveIdle` and others", "{postgres.userTimeout}, both sides",
			"the connection is given up, the former session ended"},
		{"a lock of another session", "`tableLockWait`, `lockWait`", "{postgres.tableLockWait}; {postgres.lockWait}",
			"tried again"},
		{"equal lines of the log", "`repeatsMax`", "{logging.repeatsMax} in {logging.repeatsWindow}",
			"left out and counted"},
		{"a stop", "`--stop-timeout`", "{--stop-timeout}", "commands that have not begun are not done; " +
			"{outcryd.stopGrace} later (`stopGrace`) the process ends as in a crash"},
	}},
}

const boundsHead = `# Bounds

Everything that a client, an operator or a session of the database can fill has a bound. Made by
` + "`make reference` from the code; [SETTINGS](SETTINGS.md) has the flags." + ` A bound without a
flag has a name in the code. Code style at the end of a row is the value of ` + "`limit`" + ` in
` + "`outcry_limit_hits_total`." + `

Bounds of orders, accounts and symbols apply to what is new, never at a start, replay or restore: after a lower
bound everything is still there.

In the worst case 16,384 hostile connections take 8 GiB beside twice ` + "`--max-memory`" + `; lower
` + "`--max-connections`" + ` if that is too much. Clients that send 64 KiB of large frames and then nothing make
other frames over 64 KiB wait for up to ` + "`--frame-timeout`" + `. Without tokens and TLS, clients that hold all
connections keep new ones out until ` + "`--idle-timeout`" + `.
`

// TestReferenceOfBounds generates docs/reference/BOUNDS.md from the table and the constants.
func TestReferenceOfBounds(t *testing.T) {
	constants := doctest.NewConstants("../../..")
	fill := func(text string) string {
		return regexp.MustCompile(`\{([^}]+)\}`).ReplaceAllStringFunc(text, func(part string) string {
			part = strings.Trim(part, "{}")
			if flag, ok := strings.CutPrefix(part, "--"); ok {
				return people(rowOf(flag))[0]
			}
			name, unit, _ := strings.Cut(part, " ")
			dir, name, _ := strings.Cut(name, ".")
			value, err := constants.Text(folderOf(t, dir), name, unit)
			require.NoError(t, err)
			return value
		})
	}
	page := boundsHead
	for _, section := range bounds {
		rows := [][]string{{"bound", "flag or name", "default", "at the bound"}}
		for _, b := range section.rows {
			rows = append(rows, []string{b.what, b.names, fill(b.value), fill(b.at)})
		}
		page += "\n## " + section.title + "\n\n" + doctest.Table(rows)
	}
	require.NoError(t, doctest.Reference("../../../docs/reference/BOUNDS.md", page, *update))
}

// folderOf returns the folder of the only package with a name.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"cmd/", "internal/", "internal/*/", "internal/*/*/"} {
		all, err := filepath.Glob("../../../" + pattern + name)
		require.NoError(t, err)
		found = append(found, all...)
	}
	require.Len(t, found, 1, name)
	return strings.TrimPrefix(found[0], "../../../")
}

// Each setting with bounds has a row, and each name in the table exists in the code.
func TestEveryBoundIsOnThePage(t *testing.T) {
	var named []string
	for _, section := range bounds {
		for _, b := range section.rows {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(b.names, -1) {
				named = append(named, name[1])
			}
		}
	}
	for _, r := range table {
		if r.min != 0 || r.max != 0 {
			require.Contains(t, named, "--"+r.flag)
		}
	}
	code := sourceOf(t, "../../../internal", "../../../cmd")
	for _, name := range named {
		if flag, ok := strings.CutPrefix(name, "--"); ok {
			require.True(t, slices.ContainsFunc(table, func(r row) bool { return r.flag == flag }), "--%s is no flag", flag)
		} else if name != "ulimit -n" {
			require.Regexp(t, `\b`+name+`\b`, code, "is in the code")
		}
	}
}

// sourceOf returns the Go code below directories, tests aside.
func sourceOf(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			all.Write(b)
			return err
		}))
	}
	return all.String()
}
