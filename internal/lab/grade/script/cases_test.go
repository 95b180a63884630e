package script_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/faulty"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/model"
)

// How long a server in these tests may take for a reply: patience for correct servers, even on a busy
// machine, and quick for those that may never answer.
const (
	patience = 30 * time.Second
	quick    = time.Second
)

// remarks collects the faults of form that were seen.
type remarks struct {
	mu    sync.Mutex
	forms []dialect.Form
}

func (r *remarks) add(remark dialect.Remark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forms = append(r.forms, remark.Form)
}

// player returns a Player for a server that it can kill and restart at the same address.
func player(t *testing.T, o faulty.Options, seen *remarks, wait time.Duration) *script.Player {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	ended := make(chan error, 1)
	serve := func() { go func(l net.Listener) { ended <- faulty.Serve(l, o) }(l) }
	stop := func() error { _ = l.Close(); return <-ended }
	serve()
	t.Cleanup(func() { require.NoError(t, stop()) })
	options := dialect.Options{ReplyTime: wait}
	if seen != nil {
		options.Remark = seen.add
	}
	return &script.Player{Dialer: &dialect.Connector{Addr: addr, Options: options}, Seed: 1, Salt: "123456",
		Kill: func(context.Context) error {
			if err := stop(); err != nil {
				return err
			}
			var err error
			if l, err = net.Listen("tcp", addr); err != nil {
				return err
			}
			serve()
			return nil
		}}
}

// piped returns a dialer for a server in which one read returns exactly the bytes of one write. With a socket, a late
// read could return two writes at once.
func piped(t *testing.T, o faulty.Options) dialect.Dialer {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- faulty.Serve(l, o) }()
	t.Cleanup(func() { _ = l.Close(); require.NoError(t, <-ended) })
	options := dialect.Options{ReplyTime: quick}
	return &dialect.Connector{Options: options, Open: func(ctx context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		select {
		case l.conns <- server:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// pipes is a listener of in-memory connections.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { close(l.closed); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// named returns the built-in case with this name, with enough time for a busy machine.
func named(t *testing.T, name string) *script.Case {
	t.Helper()
	all, err := script.Builtin()
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(c *script.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "there is no case %s", name)
	c := *all[i]
	c.Time = patience
	return &c
}

// plant is a wrong server, and the cases that must fail on it.
type plant struct {
	name  string
	wrong faulty.Options
	cases string
}

// sent returns a server that gives the model the edited documents.
func sent(edit func(doc string) string) faulty.Options {
	twin := model.New()
	return faulty.Options{Twin: func(doc []byte, now int64) []byte { return twin.Do([]byte(edit(string(doc))), now) }}
}

// got returns a server that answers with the model's edited replies.
func got(edit func(doc, reply string) string) faulty.Options {
	twin := model.New()
	return faulty.Options{Twin: func(doc []byte, now int64) []byte {
		return []byte(edit(string(doc), string(twin.Do(doc, now))))
	}}
}

// swapped returns a server that reads each match of from, a regular expression, as to.
func swapped(from, to string) faulty.Options {
	re := regexp.MustCompile(from)
	return sent(func(doc string) string { return re.ReplaceAllString(doc, to) })
}

// shown returns a server that writes to in place of each match of from, a regular expression.
func shown(from, to string) faulty.Options {
	re := regexp.MustCompile(from)
	return got(func(_, reply string) string { return re.ReplaceAllString(reply, to) })
}

// fault returns a server with one fault.
func fault(name string) faulty.Options { return faulty.Options{Faults: []string{name}} }

// plants returns at least one wrong server for each case.
func plants() []plant {
	all := []plant{
		{"one frame a connection", faulty.Options{Habits: dialect.Habits{OneFrame: true}}, "frames/two-on-one-connection"},
		{"refuses comments and marks", got(func(doc, reply string) string {
			if strings.Contains(doc, "<!--") || strings.HasPrefix(doc, "\ufeff") {
				return "<results><error>no</error></results>"
			}
			return reply
		}), "frames/comments frames/byte-order-mark"},
		{"answers the first child", shown(`^(<results><created[^>]*/>).*`, "$1</results>"), "create/account create/alone"},
		{"places one share", swapped(`(<account id="\d+">)\d+`, "${1}1"), "create/symbol-shares orders/sell"},
		{"has something to say to nothing", shown(`<results/>`, `<results><error>empty</error></results>`),
			"create/empty orders/no-children"},
		{"makes no empty symbol", swapped(`<symbol sym="\w+"></symbol>`, `<symbol sym="-"/>`), "create/symbol-alone"},
		{"reads account ids as numbers", swapped(`id="0+`, `id="`), "create/leading-zeros"},
		{"reads symbols in capitals", sent(func(doc string) string { return strings.ReplaceAll(doc, `x"`, `X"`) }),
			"create/symbol-case"},
		{"names the symbol itself", swapped(`<symbol>`, `<symbol sym="NONE">`), "create/symbol-missing"},
		{"places shares without their sign", swapped(`>-(\d)`, ">$1"), "create/no-shares"},
		{"reads over attributes", swapped(` color="red"`, ""), "create/unknown-attribute limits/unknown-attribute"},
		{"wants no text", swapped(`an account,`, "<no/>"), "create/text-ignored"},
		{"gives no ids", shown(`(<opened[^>]*) id="\d+"`, "$1"), "orders/buy orders/sell"},
		{"gives one id", shown(`(<opened[^>]* id=)"\d+"`, `$1"1"`),
			"orders/id-unique orders/id-over-symbols orders/id-rising"},
		{"knows no attribute account", swapped(` account="`, ` none="`), "orders/account-attribute"},
		{"reads a limit without its sign", swapped(`limit="-`, `limit="`), "orders/negative-limit"},
		{"reads no signs", swapped(`"\+1"`, `"x"`), "orders/written-numbers"},
		{"always executes", swapped(`limit="(49|50)"`, `limit="50"`), "matching/no-cross"},
		{"shows one open share", shown(`<open shares="\d+"/>`, `<open shares="1"/>`), "query-cancel/open query-cancel/part"},
		{"shows one execution", shown(`(<executed[^>]*/>)(<executed[^>]*/>)+`, "$1"), "query-cancel/executions"},
		{"knows every order", got(func(doc, reply string) string {
			if strings.Contains(doc, "<query") {
				return strings.ReplaceAll(reply, "<error", "<status")
			}
			return strings.ReplaceAll(reply, "<error", "<canceled")
		}), "query-cancel/unknown query-cancel/twice query-cancel/executed limits/order-id"},
		{"does not say what it canceled", shown(`(<canceled id="\d+">).*(</canceled>)`, "$1$2"), "query-cancel/cancel"},
		{"keeps something for itself", swapped(`balance="1000"`, `balance="900"`), "money/opening money/buy-too-dear"},
		{"reads words", swapped(`amount="(ten|NaN|0x10|1e1|1_0)"`, `amount="10"`),
			"limits/amount-words limits/amount-nan limits/amount-hex limits/amount-exponent limits/amount-underscore"},
		{"rounds", swapped(`10\.000000001`, "10"), "limits/nine-places"},
		{"reads the first of two attributes", swapped(` id="\d+" (id="\d+") balance`, ` $1 balance`),
			"limits/attribute-twice"},
		{"is silent to what it does not know", got(func(doc, reply string) string {
			if doc == "" || !utf8.ValidString(doc) || strings.Contains(doc, "<trade") {
				return "<results/>"
			}
			return reply
		}), "limits/empty-frame limits/not-utf8 limits/unknown-root"},
	}
	for name, cases := range seenBy {
		all = append(all, plant{name, fault(name), cases}) // faulty.Serve rejects an unknown fault
	}
	return all
}

// seenBy has, by fault of package faulty, the cases that must fail because of it.
var seenBy = map[string]string{
	"split-frames":         "frames/in-two-writes frames/in-many-writes",
	"pipelined-lost":       "frames/pipelined",
	"half-close-hangs-up":  "frames/half-close",
	"strict-length":        "frames/blank-lines frames/carriage-return",
	"cut-off-done":         "frames/cut-off",
	"error-hangs-up":       "frames/two-on-one-connection",
	"silence-ends":         "frames/silence",
	"account-overwritten":  "create/account-again",
	"deposit-replaces":     "create/symbol-twice",
	"create-stops":         "create/alone",
	"letters-only":         "create/symbol-digits",
	"symbol-once":          "create/symbol-twice",
	"deposit-for-nobody":   "create/unknown-account",
	"negative-balance":     "create/negative-balance",
	"unknown-account":      "orders/unknown-account",
	"unknown-symbol":       "orders/unknown-symbol",
	"by-kind":              "orders/in-order",
	"stops-at-error":       "orders/in-the-middle",
	"ids-per-symbol":       "orders/id-over-symbols",
	"zero-amount":          "orders/zero",
	"priority-lost":        "matching/partial-keeps-priority",
	"newest-first":         "matching/time-priority-sells matching/time-priority-buys",
	"worst-price":          "matching/best-price-first matching/worked-example matching/tape-1",
	"incoming-price":       "matching/resting-price-sell-in matching/resting-price-buy-in matching/tape-2",
	"strict-cross":         "matching/equal-prices-cross matching/tape-3",
	"one-execution":        "matching/sweep matching/tape-4",
	"never-itself":         "matching/own-orders",
	"mixed-books":          "matching/symbols-apart",
	"own-queries":          "query-cancel/query-others",
	"others-canceled":      "query-cancel/other-account",
	"executions-forgotten": "query-cancel/cancel-part",
	"canceled-twice":       "query-cancel/twice query-cancel/executed",
	"canceled-executes":    "query-cancel/never-executes",
	"seller-unpaid":        "money/proceeds money/resting-cross",
	"no-improvement":       "money/price-improvement",
	"no-refund":            "money/cancel-buy money/cancel-sell",
	"refund-whole":         "money/cancel-part",
	"short-sales":          "money/no-short-sale",
	"overdraft":            "money/buy-too-dear",
	"holds-nothing":        "money/buy-reserves money/sell-reserves",
	"no-delivery":          "money/position-grows",
	"float-money":          "money/fractions",
	"racing-balance":       "concurrency/one-balance",
	"racing-cancel":        "concurrency/one-cancel",
	"racing-account":       "concurrency/one-account",
	"racing-ids":           "concurrency/ids",
	"racing-trades":        "concurrency/trades concurrency/legal-order",
	"few-connections":      "concurrency/64-connections",
	"lenient-numbers":      "limits/amount-exponent limits/amount-underscore",
	"default-limit":        "limits/missing-attribute",
	"letters-in-ids":       "limits/account-id",
	"unknown-ignored":      "limits/unknown-child",
	"hundred-children":     "limits/thousand-children",
	"document-types":       "limits/doctype",
	"malformed-half-done":  "limits/malformed-does-nothing",
	"malformed-hangs-up":   "limits/malformed",
	"nothing-kept":         "durability/accounts",
	"orders-lost":          "durability/orders",
	"money-lost":           "durability/money",
	"ids-again":            "durability/ids",
	"late-journal":         "durability/under-load",
}

// formsOf has, for each case of the group form, a server that must fail it.
var formsOf = map[dialect.Form]faulty.Options{
	dialect.LengthLine:      {Habits: dialect.Habits{Bare: true}},
	dialect.Length:          {Habits: dialect.Habits{WrongLength: true}},
	dialect.Root:            {Habits: dialect.Habits{ResultRoot: true}},
	dialect.Echo:            fault("limit-not-repeated"),
	dialect.ErrorText:       fault("no-error-text"),
	dialect.Time:            fault("milliseconds"),
	dialect.Number:          fault("dollar-signs"),
	dialect.Sign:            fault("signed-shares"),
	dialect.ExecutionsOrder: fault("executions-backwards"),
	dialect.OpenZero:        fault("open-zero"),
	dialect.RefusedID:       fault("refused-with-id"),
}

// showing are cases that pass on every server of formsOf, although its fault of form is seen during them.
var showing = []string{"orders/buy", "orders/unknown-symbol", "query-cancel/part", "query-cancel/executed",
	"query-cancel/cancel-part", "query-cancel/executions", "matching/sweep"}

// The test plays each case against a server on which it must fail. The tests of package faulty check that all
// cases pass on a correct server.
func TestEachCaseSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{
		"form/account-attribute": true, // dialect.Probe finds it
		// TestALengthThatIsNoneEndsTheConnection uses a server that never closes connections and rejects leading zeros.
		"frames/leading-zeros": true, "limits/length-not-a-number": true, "limits/length-negative": true,
		"limits/length-huge": true,
	}
	for _, p := range plants() {
		for _, name := range strings.Fields(p.cases) {
			tried[name] = true
		}
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(p.cases, "durability") {
				p.wrong.Journal = filepath.Join(t.TempDir(), "journal")
			}
			pl := player(t, p.wrong, nil, quick)
			if p.name == "split-frames" {
				pl.Dialer = piped(t, p.wrong)
			}
			for _, name := range strings.Fields(p.cases) {
				out := pl.Play(t.Context(), named(t, name))
				require.Contains(t, []script.Status{script.Fail, script.Part}, out.Status, "%s: %s", name, out.Message)
				require.NotEmpty(t, out.Message)
			}
		})
	}
	for form, wrong := range formsOf {
		tried["form/"+string(form)] = true
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			seen := &remarks{}
			pl := player(t, wrong, seen, patience)
			for _, name := range showing {
				out := pl.Play(t.Context(), named(t, name))
				require.Equal(t, script.Pass, out.Status, "%s: %s", name, out.Message)
			}
			require.Contains(t, seen.forms, form)
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(seen.forms))), 1, "%v", seen.forms)
		})
	}
	all, err := script.Builtin()
	require.NoError(t, err)
	for _, c := range all {
		require.True(t, tried[c.Name], "no wrong server is seen by %s: add one to plants", c.Name)
	}
}

func TestALengthThatIsNoneEndsTheConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			all.Go(func() { patient(conn, func(doc []byte) []byte { return model.New().Do(doc, 1_800_000_000) }) })
		}
	})
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	waiting := func(wait time.Duration) *script.Player {
		return &script.Player{Seed: 1, Salt: "123456",
			Dialer: &dialect.Connector{Addr: l.Addr().String(), Options: dialect.Options{ReplyTime: wait}}}
	}
	right := waiting(patience).Play(t.Context(), named(t, "frames/in-two-writes"))
	require.Equal(t, script.Pass, right.Status, "it takes frames: %s", right.Message)
	for _, name := range []string{"frames/leading-zeros", "limits/length-not-a-number", "limits/length-negative",
		"limits/length-huge"} {
		out := waiting(quick).Play(t.Context(), named(t, name))
		require.Equal(t, script.Fail, out.Status, name)
	}
}

// patient answers the first frame of a connection once it is complete, and then reads on until the client closes
// the connection. If the length line is malformed, it answers nothing.
func patient(conn net.Conn, twin func(doc []byte) []byte) {
	defer conn.Close()
	var came []byte
	for b := make([]byte, 4096); ; {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		came = append(came, b[:n]...)
		line, doc, _ := strings.Cut(string(came), "\n")
		if length, err := strconv.Atoi(line); err == nil && line[0] != '0' && len(doc) == length {
			reply := twin([]byte(doc))
			fmt.Fprintf(conn, "%d\n%s", len(reply), reply)
		}
	}
}
