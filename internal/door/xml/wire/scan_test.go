package wire

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/exchange"
)

// common lists frames that the scanner accepts.
var common = []string{
	`<create/>`, `<create></create>`, "\r\n\t <create\n/>\n", "<create\t>  </create\r> ",
	`<?xml version="1.0"?><create/>`, `<?xml version="1.0" encoding="utf-8"?> <create/>`,
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<create/>",
	`<transactions id="1"/>`, `<transactions account="1"></transactions>`, `<transactions id="` +
		strings.Repeat("9", exchange.AccountDigitsMax) + `"/>`,
	`<create><account id="007" balance="+1.50"/><account balance='.5' id='8'> </account ></create>`,
	`<create><symbol sym="SPY"/><symbol sym='b2'></symbol><symbol sym="C"> </symbol></create>`,
	"<create><symbol sym=\"SPY\"> <account id=\"1\"> \t\r\n+5. </account> <account " +
		"id='2'>10</account></symbol><symbol sym='A'/></create>",
	`<transactions id="1"><order sym="A" amount="1" limit="2"/></transactions>`,
	"<transactions id='1' ><order limit = '01.' amount=\n'-.5'\tsym= \"A\" ></order>\n</transactions\t>",
	`<transactions id="1"><query id="007"/><cancel id="9223372036854775807"/> <query id='1'></query>` +
		`<cancel  id='2'> </cancel></transactions>`,
	`<create><account ref="a.B_9:-" id="1" balance="1"/><symbol sym="A"><account id="1" ref='x'>1</account>` +
		`<account id="2">1</account></symbol></create>`,
	`<transactions id="1"><order sym="A" amount="1" limit="2" ref="r"/><query ref="r"/><cancel ref='r'></cancel>` +
		`<order sym="A" amount="1" limit="2"/></transactions>`,
	setup, twoOrders,
}

// uncommon lists documents on which the scanner gives up, each for a different reason.
var uncommon = []string{
	``, ` `, `<`, `<create`, `<create/`, `<create>`, `<create><`, `<create></`, `<create></create`, `<creates/>`,
	`<create/><create/>`, `<create/>x`, `x<create/>`,
	"\ufeff<create/>", ` <?xml version="1.0"?><create/>`, `<?xml version='1.0'?><create/>`,
	`<?xml version="1.0"?><?xml version="1.0"?><create/>`, `<!-- c --><create/>`, `<?pi?><create/>`,
	`<create x="1"/>`, `<create id="1"/>`, `<create/ >`, `<create></transactions>`, `<create>text</create>`,
	`<create><!-- c --></create>`, `<create><order/></create>`,
	`<transactions/>`, `<transactions id=""/>`, `<transactions id="x"/>`, `<transactions id="1" account="1"/>`,
	`<transactions id="1" id="1"/>`, `<transactions id="1"`, `<transactions id="1`, `<transactions id=1/>`,
	`<transactions id=x1x/>`, `<transactions id/>`, `<transactions id="1'/>`,
	`<transactions sym="A"/>`, `<transactions x:id="1"/>`, `<transactions xmlns="x" id="1"/>`, `<x:transactions id="1"/>`,
	`<transactions id="1"></create>`, `<transactions id="&#49;"/>`, `<transactions id="1é"/>`,
	`<transactions id="` + strings.Repeat("9", exchange.AccountDigitsMax+1) + `"/>`,
	`<transactions id="1"><account id="1" balance="1"/></transactions>`, `<transactions id="1"><orders/></transactions>`,
	`<transactions id="1"><query id="1"/>x</transactions>`, `<transactions id="1">x<query id="1"/></transactions>`,
	`<transactions id="1"><query id="1"/></transactions`, `<transactions id="1"><query id="1"/><transactions>`,
	`<transactions id="1"><order/></transactions>`, `<transactions id="1"><order sym="A" amount="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1" id="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1" limit="1"/></transactions>`,
	`<transactions id="1"><order sym="" amount="1" limit="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="0" limit="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="-1"/></transactions>`,
	`<transactions id="1"><order sym="A"amount="1" limit="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1">x</order></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1"></query></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1"><x/></order></transactions>`,
	`<transactions id="1"><order sym="A" amount=" 1" limit="1"/></transactions>`,
	`<transactions id="1"><query/></transactions>`, `<transactions id="1"><query id="0"/></transactions>`,
	`<transactions id="1"><query id="1" sym="A"/></transactions>`,
	`<transactions id="1"><query account="1"/></transactions>`,
	`<transactions id="1"><query id="1"></cancel></transactions>`,
	`<transactions id="1"><cancel/></transactions>`, `<transactions id="1"><cancel id="x"/></transactions>`,
	`<transactions id="1"><cancel id="1" balance="1"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1" ref=""/></transactions>`,
	`<transactions id="1"><query ref="r" id="1"/></transactions>`,
	`<transactions id="1"><cancel ref="a b"/></transactions>`, `<transactions id="1" ref="r"/>`,
	`<transactions id="1"><order sym="A" amount="1" ref="r"/></transactions>`,
	`<create><account id="1" balance="1" ref="&#49;"/></create>`, `<create><symbol sym="A" ref="r"/></create>`,
	`<create><symbol sym="A"><account ref="r">1</account></symbol></create>`, `<create ref="r"/>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1" tif="IOC"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" type="market"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1" cod="yes"/></transactions>`,
	`<transactions id="1"><order sym="A" amount="1" limit="1" report="full"/></transactions>`,
	`<transactions id="1"><amend id="1" amount="1"/></transactions>`, `<transactions id="1"><cancel-all/></transactions>`,
	`<transactions id="1"><cancel-after seconds="1"/></transactions>`, `<transactions id="1"><account/></transactions>`,
	`<transactions id="1"><fills after="1"/></transactions>`, `<session cancel="disconnect"/>`,
	`<create><symbol sym="A" tick="1"/></create>`,
	`<create><symbol sym="A" lot="1"><account id="1">1</account></symbol></create>`,
	`<create><account id="1"/></create>`, `<create><account id="" balance="1"/></create>`,
	`<create><account id="1" balance="-1"/></create>`, `<create><account id="1" balance="1">1</account></create>`,
	`<create><account account="1" balance="1"/></create>`, `<create><account id="1" balance="1" sym="A"/></create>`,
	`<create><symbol/></create>`, `<create><symbol sym=""/></create>`, `<create><symbol sym="A" id="1"/></create>`,
	`<create><symbol sym="A">x</symbol></create>`, `<create><symbol sym="A"></create>`,
	`<create><symbol sym="A"><account id="1">1</account></create>`,
	`<create><symbol sym="A"><account id="1">1</account>x</symbol></create>`,
	`<create><symbol sym="A"><symbol sym="B"/></symbol></create>`,
	`<create><symbol sym="A"><account id="1"/></symbol></create>`,
	`<create><symbol sym="A"><account id="1"> </account></symbol></create>`,
	`<create><symbol sym="A"><account id="x">1</account></symbol></create>`,
	`<create><symbol sym="A"><account>1</account></symbol></create>`,
	`<create><symbol sym="A"><account id="1" sym="A">1</account></symbol></create>`,
	`<create><symbol sym="A"><account id="1">1<!-- c --></account></symbol></create>`,
	`<create><symbol sym="A"><account id="1">0</account></symbol></create>`, `<create><symbol sym="A"><account id="1">1`,
	`<create><symbol sym="A"><account id="1">1</symbol></create>`,
	`<create><symbol sym="A"><account id="1">1<x/></account></symbol></create>`,
	`<create><symbol sym="A"><account id="1">&#49;</account></symbol></create>`,
}

// outcomes are results for every kind of answer. They need not fit the command, since AppendReply does not
// check that.
var outcomes = []exchange.Result{
	{Order: 42, Amended: &exchange.Amended{By: 43}, Answer: anyAnswer, Status: exchange.Status{Open: 5e8,
		Executions: []exchange.Execution{{Shares: 15e7, Price: 12550000000, Time: 1519348326_987654321}}}},
	{Reason: exchange.SymbolLimitExceeded},
	{Order: 1 << 62, Amended: &exchange.Amended{Open: 1, Reduced: 2, Time: 1519348326_987654321}, Answer: anyAnswer,
		Status: exchange.Status{Canceled: 1, CanceledAt: 1519348326_987654321}},
	{Reason: exchange.InsufficientFunds},
	{Reason: exchange.UnknownAccount},
}

// anyAnswer sets all views of a result, so that it fits any command.
var anyAnswer = &exchange.Answer{Account: &exchange.AccountView{ID: "1"},
	Orders: &exchange.OrdersView{More: 7},
	Fills:  &exchange.FillsView{Fills: []exchange.AccountFill{{N: 1, Order: 2, Symbol: "A", Side: exchange.Buy}}}}

// replies returns the concatenated replies to a request for several fixed sets of results.
func replies(r *Request) string {
	var all []byte
	results := make([]exchange.Result, len(r.Commands))
	for set := range outcomes {
		for i := range results {
			results[i] = outcomes[(i+set)%len(outcomes)]
		}
		all = append(r.AppendReply(all, results), '\n')
	}
	return string(all)
}

// requireAsDocument requires that Decode and decodeDocument give the same result for a frame, and reports
// whether the scanner accepted the frame.
func requireAsDocument(t require.TestingT, frame []byte) (taken bool) {
	var alone, r, document Request
	s := scanner{r: &alone, xml: frame}
	taken = s.scan()
	r.Decode([]byte(twoOrders), nil)
	r.Decode(frame, nil)
	document.decodeDocument(frame)
	if !slices.Equal(document.Commands, r.Commands) {
		require.Equal(t, document.Commands, r.Commands, "%q", frame)
	}
	if want, got := replies(&document), replies(&r); want != got {
		require.Equal(t, want, got, "%q", frame)
	}
	require.Equal(t, document.Refused(), r.Refused(), "%q", frame)
	return taken
}

func TestScannerTakesTheCommonForm(t *testing.T) {
	for _, frame := range common {
		require.True(t, requireAsDocument(t, []byte(frame)), "%s", frame)
	}
	for _, frame := range commonFrames() {
		require.True(t, requireAsDocument(t, frame), "%s", frame)
	}
}

func TestScannerGivesUpWhatIsNotOfTheCommonForm(t *testing.T) {
	for _, frame := range append(uncommon, malformed...) {
		require.False(t, requireAsDocument(t, []byte(frame)), "%s", frame)
	}
}

func TestScannerTakesAsManyElementsAsADocumentMayHave(t *testing.T) {
	scan := func(queries int) bool {
		frame := []byte(`<transactions id="1">` + strings.Repeat(`<query id="1"/>`, queries) + `</transactions>`)
		s := scanner{r: new(Request), xml: frame}
		return s.scan()
	}
	require.True(t, scan(ElementsMax-1))
	require.False(t, scan(ElementsMax))
}

// TestNeighboursOfTheCommonFormMeanTheSame changes frames that the scanner accepts: it cuts them at each byte,
// removes the byte, and replaces it or inserts before it a character that may matter there. Both decoders must
// agree on the result.
func TestNeighboursOfTheCommonFormMeanTheSame(t *testing.T) {
	for _, frame := range append(common, string(commonFrames()["create"])) {
		for i := range frame {
			requireAsDocument(t, []byte(frame[:i]))
			requireAsDocument(t, []byte(frame[:i]+frame[i+1:]))
			for _, other := range "<>/=\"'& \n\r\t\x00\x7f-+.09:;Ais\u00e9" {
				requireAsDocument(t, []byte(frame[:i]+string(other)+frame[i+1:]))
				requireAsDocument(t, []byte(frame[:i]+string(other)+frame[i:]))
			}
		}
	}
}

func TestACommonFrameIsDecodedWithoutAllocation(t *testing.T) {
	for name, frame := range commonFrames() {
		var r Request
		require.Zero(t, testing.AllocsPerRun(10, func() { r.Decode(frame, nil) }), name)
	}
}

func TestNamesOfCommandsOutliveTheFrame(t *testing.T) {
	var r Request
	frame := []byte(twoOrders)
	r.Decode(frame, nil)
	copy(frame, strings.Repeat("?", len(frame)))
	r.Decode([]byte(`<transactions id="7"><order sym="QQQ" amount="1" limit="1"/>`+
		`<order sym="SPY" amount="1" limit="1"/></transactions>`), nil)
	require.Equal(t, exchange.AccountID("7"), r.Commands[1].Account)
	require.Equal(t, []exchange.Symbol{"QQQ", "SPY"}, []exchange.Symbol{r.Commands[0].Symbol, r.Commands[1].Symbol})
	kept := r.Commands[1]
	r.Decode([]byte(setup), nil)
	require.Equal(t, exchange.Symbol("SPY"), kept.Symbol)
	require.Equal(t, exchange.AccountID("7"), kept.Account)
}

// writer draws documents of the protocol, with random choices wherever XML allows several forms. If odd is set,
// they also contain references, comments, stray text and mistakes.
type writer struct {
	t   *rapid.T
	odd bool
}

// pick draws one of the texts in common, or rarely one of odd.
func (w *writer) pick(common []string, odd ...string) string {
	if w.oddly() {
		return rapid.SampledFrom(odd).Draw(w.t, "odd")
	}
	return rapid.SampledFrom(common).Draw(w.t, "text")
}

// oddly reports, at random, whether to write something odd in this place.
func (w *writer) oddly() bool { return w.odd && rapid.IntRange(0, 19).Draw(w.t, "oddly") == 0 }

func (w *writer) space() string {
	return w.pick([]string{"", "", " ", "\n\t", "\r\n"}, "<!-- c -->", "text", "<?pi?>", "<![CDATA[x]]>", "\x00", "&#32;")
}

// attribute writes white space and an attribute.
func (w *writer) attribute(name, value string) string {
	quote := w.pick([]string{`"`, "'"}, "", `"'`)
	if value != "" && w.oddly() {
		value = "&#" + strconv.Itoa(int(value[0])) + ";" + value[1:]
	}
	between := []string{"", "", " ", "\n"}
	return w.pick([]string{" ", "\n  ", "\t"}, "", " x:") + w.pick([]string{name}, "sym", "id", "x", "ID") +
		w.pick(between, "/") + "=" + w.pick(between, "x") + quote + value + quote
}

// element writes an element. attributes alternates names and values.
func (w *writer) element(name, content string, attributes ...string) string {
	var all []string
	for pair := range slices.Chunk(attributes, 2) {
		if !w.oddly() {
			all = append(all, w.attribute(pair[0], pair[1]))
		}
	}
	if len(all) > 1 {
		all = rapid.Permutation(all).Draw(w.t, "order")
	}
	end := []string{"", "", " ", "\n"}
	start := "<" + name + strings.Join(all, "") + w.pick(end, "x")
	if strings.Trim(content, whiteSpace) == "" && rapid.Bool().Draw(w.t, "empty") {
		return start + "/>"
	}
	return start + ">" + content + "</" + w.pick([]string{name}, "create", "order") + w.pick(end, "x") + ">"
}

func (w *writer) id() string     { return w.pick([]string{"1", "2", "007", "123456789"}, "", "x", "-1") }
func (w *writer) symbol() string { return w.pick([]string{"A", "SPY", "b2"}, "", "A.B", "A B", `"`) }

// ref adds a ref to attributes at random.
func (w *writer) ref(attributes ...string) []string {
	if rapid.Bool().Draw(w.t, "ref") {
		return attributes
	}
	return append(attributes, "ref", w.pick([]string{"1", "a.B_9:-", "r"}, "", "a b", strings.Repeat("x", 65)))
}

func (w *writer) number() string {
	return w.pick([]string{"1", "100", "+145.67", ".5", "5.", "0.00000001"}, "", "0", "-1", "1e3", "1.000000000",
		"99999999999999999999")
}

// children writes up to three elements, each with a randomly drawn function of kinds.
func (w *writer) children(kinds ...func() string) string {
	all := w.space()
	for range rapid.IntRange(0, 3).Draw(w.t, "children") {
		all += rapid.SampledFrom(kinds).Draw(w.t, "kind")() + w.space()
	}
	return all
}

// instructed writes an order with a random selection of its attributes.
func (w *writer) instructed() string {
	return w.element("order", w.space(), w.some("sym", w.symbol(), "amount", w.number(), "limit", w.number(), "type",
		w.pick([]string{"market"}, "limit"), "tif", w.pick([]string{"GTC", "IOC", "FOK"}, "ioc"), "post",
		w.pick([]string{"yes", "no"}, ""), "stp", w.pick([]string{"newest", "oldest", "both"}, "none"), "cod",
		w.pick([]string{"yes", "no"}, "Yes"), "report", w.pick([]string{"full"}, "all"), "ref", w.id())...)
}

func (w *writer) amend() string {
	return w.element("amend", w.space(), w.some("id", w.id(), "ref", w.id(), "amount", w.number(), "limit", w.number(),
		"report", "full", "newref", w.id())...)
}

// other writes one of the other elements that <transactions> allows.
func (w *writer) other() string {
	name := w.pick([]string{"cancel-all", "cancel-after", "account", "orders", "fills"}, "cancel-none")
	return w.element(name, w.space(), w.some("sym", w.symbol(), "seconds", w.number(), "after", w.id())...)
}

// some returns a random selection of the attributes, in the given order.
func (w *writer) some(attributes ...string) (some []string) {
	for pair := range slices.Chunk(attributes, 2) {
		if rapid.Bool().Draw(w.t, pair[0]) {
			some = append(some, pair...)
		}
	}
	return some
}

func (w *writer) document() string {
	account := func() string {
		return w.element("account", w.space(), w.ref("id", w.id(), "balance", w.number())...)
	}
	placement := func() string { return w.element("account", w.space()+w.number()+w.space(), w.ref("id", w.id())...) }
	symbol := func() string { return w.element("symbol", w.children(placement), "sym", w.symbol()) }
	order := func() string {
		return w.element("order", w.space(), w.ref("sym", w.symbol(), "amount", w.pick([]string{"", "-"}, "--")+"1", "limit",
			w.number())...)
	}
	if w.odd {
		order, symbol = w.instructed, func() string {
			return w.element("symbol", w.children(placement), "sym", w.symbol(), "tick", w.number(), "lot", w.number())
		}
	}
	query := func() string { return w.element("query", w.space(), w.pick([]string{"id", "ref"}, "x"), w.id()) }
	cancel := func() string { return w.element("cancel", w.space(), w.pick([]string{"id", "ref"}, "x"), w.id()) }
	start := w.pick(append(declarations[:], ""), "\ufeff", `<?xml version='1.0'?>`, `<?xml version="1.1"?>`) + w.space()
	if rapid.Bool().Draw(w.t, "create") {
		return start + w.element("create", w.children(account, symbol)) + w.space()
	}
	kinds := []func() string{order, query, cancel}
	if w.odd {
		kinds = append(kinds, w.amend, w.other)
	}
	return start + w.element("transactions", w.children(kinds...), w.pick([]string{"id", "account"}, "sym"),
		w.id()) + w.space()
}

func TestScannerTakesEveryDocumentOfTheCommonForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: t}
		for range 20 {
			document := w.document()
			require.True(t, requireAsDocument(t, []byte(document)), "%q", document)
		}
	})
}

func TestDocumentsMeanTheSameToTheScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{t: t, odd: true}
		for range 20 {
			requireAsDocument(t, []byte(w.document()))
		}
	})
}

// FuzzScan: a frame that the scanner accepts has the same meaning in decodeDocument, and a frame on which the
// scanner gives up leaves no trace in the request.
func FuzzScan(f *testing.F) {
	for _, documents := range [][]string{common, uncommon, wellFormed, malformed} {
		for _, document := range documents {
			f.Add([]byte(document))
		}
	}
	for _, transcript := range transcripts(f) {
		for _, step := range transcript.Steps {
			if len(step.Send) < 4<<10 {
				f.Add(step.Send)
			}
		}
	}
	for _, input := range corpus(f, "FuzzDecode") {
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, frame []byte) { requireAsDocument(t, frame) })
}

// corpus returns the inputs in the stored corpus of another fuzz target, which has one []byte argument.
func corpus(t require.TestingT, target string) (inputs [][]byte) {
	files, err := filepath.Glob(filepath.Join("testdata", "fuzz", target, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, value, ok := strings.Cut(strings.TrimSpace(string(text)), "\n[]byte(")
		require.True(t, ok, file)
		input, err := strconv.Unquote(strings.TrimSuffix(value, ")"))
		require.NoError(t, err, file)
		inputs = append(inputs, []byte(input))
	}
	return inputs
}

// TestAccountOfReadsTheFirstBytes: the account of a frame is known as soon as its root element has it.
func TestAccountOfReadsTheFirstBytes(t *testing.T) {
	for head, want := range map[string]exchange.AccountID{
		`<transactions id="1">`: "1",
		`<transactions id="1`:   "",
		" <?xml?>\n<!-- <transactions id=\"9\"> --><transactions\n account = '7' >": "7",
		`<transactions id="a&amp;b">`:     "",
		`<transactions>`:                  "",
		`<transactions other="1" id="2">`: "",
		`<create><account id="1"`:         "",
		`<!-- never closed`:               "",
		`<?`:                              "",
		``:                                "",
	} {
		account, ok := AccountOf([]byte(head))
		require.Equal(t, want, account, "%q", head)
		require.Equal(t, want != "", ok, "%q", head)
	}
}
