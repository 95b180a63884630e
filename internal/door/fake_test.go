package door

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
)

// fake is an exchange that answers from memory: an account can be opened once, and order n has n shares open.
// Each command is one record.
type fake struct {
	mu         sync.Mutex
	accounts   map[exchange.AccountID]bool
	calls      []int  // number of commands of each call of Execute
	queried    []int  // orders that were queried, in order
	held       bool   // records become durable only up to the field durable
	durable    uint64 // last durable record, while held
	waiting    []waiting
	changed    chan struct{} // closed and replaced at each change of the fields above
	executeErr error
	durableErr error
	work       uint32           // the Result.Work that each order, cancel-all and new account reports
	executions int              // number of executions of each order
	past       exchange.OrderID // orders up to this one are only in the database
	away       bool             // the database answers with an error
	frozen     bool             // the database does not answer at all
	old        exchange.Ref     // a ref that may be known only in the database
	foreign    exchange.OrderID // an order of another account
	commands   []engine.Request
	entered    func() // if not nil, called by each Execute, without mu
	origins    []*engine.Origin
	ended      []*engine.Origin
	recalled   []int // orders that were requested from the database, in order
}

func newFake() *fake {
	return &fake{accounts: make(map[exchange.AccountID]bool), changed: make(chan struct{})}
}

func (x *fake) Execute(_ context.Context, commands []engine.Request, results []exchange.Result) (engine.Mark, error) {
	if x.entered != nil {
		x.entered()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.executeErr != nil {
		return engine.Mark{}, x.executeErr
	}
	x.calls = append(x.calls, len(commands))
	x.commands = append(x.commands, commands...)
	for i, c := range commands {
		results[i] = exchange.Result{}
		if x.work > 0 && (c.Kind == exchange.PlaceOrder || c.Kind == exchange.CancelAll || c.Kind == exchange.OpenAccount) {
			results[i].Work, results[i].Seq = x.work, uint64(x.total()-len(commands)+i+1)
		}
		switch c.Kind {
		case exchange.OpenAccount:
			if x.accounts[c.Account] {
				results[i].Reason = exchange.AccountExists
			}
			x.accounts[c.Account] = true
		case exchange.PlaceOrder:
			if c.Report {
				results[i].Status.Executions = make([]exchange.Execution, x.executions)
			}
		case exchange.AmendOrder:
			results[i].Amended = &exchange.Amended{Open: 1}
		case exchange.CancelAll:
			results[i].Answer = new(exchange.Answer)
		case exchange.ListFills:
			results[i] = exchange.Result{Reason: exchange.ViewUnavailable, Pending: exchange.InView, AsOf: uint64(x.total())}
		case exchange.CancelOrder:
			results[i].Status.Executions = make([]exchange.Execution, x.executions)
		case exchange.QueryOrder:
			x.queried = append(x.queried, int(c.Order))
			x.answer(c.Order, &results[i])
			if c.Order <= x.past {
				results[i] = exchange.Result{Reason: exchange.HistoryUnavailable, Pending: exchange.InHistory}
			}
			if c.Order == x.foreign && c.Order > x.past {
				results[i] = exchange.Result{Reason: exchange.ForeignOrder}
			}
		}
	}
	return engine.Mark{Seq: uint64(x.total())}, nil
}

func (x *fake) answer(id exchange.OrderID, r *exchange.Result) {
	*r = exchange.Result{Status: exchange.Status{Open: exchange.Shares(id) * 1e8,
		Executions: make([]exchange.Execution, x.executions)}}
}

func (x *fake) Recall(ctx context.Context, c *engine.Request, r *exchange.Result, most int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recalled = append(x.recalled, int(c.Order))
	for x.frozen && ctx.Err() == nil {
		changed := x.changed
		x.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		x.mu.Lock()
	}
	if x.away || ctx.Err() != nil {
		*r = exchange.Result{Reason: exchange.HistoryUnavailable}
		return
	}
	if c.Order == x.foreign {
		*r = exchange.Result{Reason: exchange.ForeignOrder}
		return
	}
	x.answer(c.Order, r)
	r.Status.Executions = r.Status.Executions[:min(most, len(r.Status.Executions))]
}

func (x *fake) Ready(commands []engine.Request) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := slices.IndexFunc(commands, func(c engine.Request) bool { return x.old != "" && c.Ref == x.old }); n >= 0 {
		return n
	}
	return len(commands)
}

func (x *fake) total() (n int) {
	for _, call := range x.calls {
		n += call
	}
	return n
}

func (x *fake) Durable(ctx context.Context, m engine.Mark) error {
	for {
		x.mu.Lock()
		err, enough, changed := x.durableErr, !x.held || m.Seq <= x.durable, x.changed
		x.mu.Unlock()
		if err != nil || enough {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (x *fake) NewOrigin() *engine.Origin {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := new(engine.Origin)
	x.origins = append(x.origins, o)
	return o
}

func (x *fake) Mark() engine.Mark { return engine.Mark{} }

func (x *fake) EndOrigin(o *engine.Origin) {
	x.set(func() { x.ended = append(x.ended, o) })
}

// waiting is a call of Notify whose record is not yet durable.
type waiting struct {
	seq  uint64
	wake chan<- struct{}
}

func (x *fake) IsDurable(m engine.Mark) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.durableErr == nil && (!x.held || m.Seq <= x.durable)
}

func (x *fake) Notify(m engine.Mark, wake chan<- struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting = append(x.waiting, waiting{m.Seq, wake})
	x.notifyWaiters()
}

// notifyWaiters notifies the waiters whose records are durable. Callers hold mu.
func (x *fake) notifyWaiters() {
	x.waiting = slices.DeleteFunc(x.waiting, func(w waiting) bool {
		if x.durableErr == nil && x.held && w.seq > x.durable {
			return false
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
		return true
	})
}

// set changes the fake and wakes the callers that wait for durability.
func (x *fake) set(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
	x.notifyWaiters()
	close(x.changed)
	x.changed = make(chan struct{})
}

// executed returns how many commands were executed.
func (x *fake) executed() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.total()
}

// start serves on a listener until the test ends. It then asserts that all goroutines of the server have
// ended and that no memory is held.
func start(t testing.TB, l net.Listener, x Exchange, o Options) *Server {
	t.Helper()
	return startWith(t, l, xmlCodec, x, o)
}

// startWith is start with another protocol.
func startWith(t testing.TB, l net.Listener, codec Codec, x Exchange, o Options) *Server {
	t.Helper()
	s := New(x, o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, codec) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, <-served)
		requireNothingHeld(t, s)
	})
	return s
}

// requireNothingHeld requires that all memory is released.
func requireNothingHeld(t require.TestingT, s *Server) {
	for _, m := range []*memory{s.arriving, s.working, s.huge, s.recalling} {
		require.Zero(t, testutil.ToFloat64(m.held))
		require.True(t, m.free.TryAcquire(m.max))
		m.free.Release(m.max)
	}
}

// xmlCodec is the protocol of the tests' clients.
var xmlCodec = Adapt(wire.XML{})

// patience bounds waits that end immediately unless something is broken. It is shorter than slowMax, for which a
// connection may not be read.
const patience = slowMax - 10*time.Second

// listen returns a listener on a free port.
func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// pipes is a listener without a network. Every written byte is passed directly to a read, so nothing is
// buffered in a kernel, and it works in a bubble with synthetic time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// client is the client's side of a session.
type client struct {
	net.Conn
	t  testing.TB
	in *bufio.Reader
}

func newClient(t testing.TB, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	return &client{Conn: conn, t: t, in: bufio.NewReader(conn)}
}

// dial connects over TCP.
func dial(t testing.TB, l net.Listener) *client {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return newClient(t, conn)
}

// connect connects through a pipe.
func connect(t testing.TB, p *pipes) *client {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return newClient(t, ours)
}

// send writes the given bytes unchanged.
func (c *client) send(stream ...string) {
	c.t.Helper()
	_, err := io.WriteString(c, strings.Join(stream, ""))
	require.NoError(c.t, err)
}

// reply reads one reply.
func (c *client) reply() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	n, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
	require.NoError(c.t, err)
	xml := make([]byte, n)
	_, err = io.ReadFull(c.in, xml)
	require.NoError(c.t, err)
	return unnumbered(string(xml))
}

// unnumbered removes the connection's number from its last reply.
func unnumbered(reply string) string {
	return regexp.MustCompile(` \(connection \d+\)(</error></results>)$`).ReplaceAllString(reply, "$1")
}

// ends asserts that nothing more arrives, and that the connection was not reset.
func (c *client) ends() {
	c.t.Helper()
	rest, err := io.ReadAll(c.in)
	require.NoError(c.t, err)
	require.Empty(c.t, string(rest))
}

// isLast asserts that the next reply has the given reason and is the last.
func (c *client) isLast(reason string) {
	c.t.Helper()
	require.Equal(c.t, errorReply(reason), c.reply())
	c.ends()
}

func errorReply(text string) string { return string(wire.AppendError(nil, text)) }

func frame(xml string) string { return string(wire.AppendFrame(nil, []byte(xml))) }

// query returns a frame that queries an order. answer returns the fake's reply to it.
func query(order int) string {
	return frame(fmt.Sprintf(`<transactions id="1"><query id="%d"/></transactions>`, order))
}

func answer(order int) string {
	return fmt.Sprintf(`<results><status id="%d"><open shares="%d"/></status></results>`, order, order)
}

func opening(account int) string {
	return frame(fmt.Sprintf(`<create><account id="%d" balance="1"/></create>`, account))
}

// ask calls Answer with a frame's XML and returns the XML of the reply.
func ask(s *Server, ctx context.Context, xml []byte) (reply []byte, err error) {
	err = s.Answer(ctx, xmlCodec, xml, func(xml []byte) { reply = bytes.Clone(xml) })
	return reply, err
}

// eventually waits for a condition.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, time.Millisecond)
}
