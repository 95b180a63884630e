package anchors

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/processes"
)

// asEcho in the environment makes this program run as an echo server.
const asEcho = "OUTCRY_TEST_ECHO"

func TestMain(m *testing.M) {
	if os.Getenv(asEcho) != "" {
		if err := load.ServeEcho(context.Background(), "127.0.0.1:0", 80, nil, os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// options returns options for a short run of all installed servers.
func options(t *testing.T) Options {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(asEcho, "1")
	return Options{Dir: t.TempDir(), Echo: []string{self}, Rounds: 1, Duration: 300 * time.Millisecond,
		At: []Shape{{4, 1}, {2, 3}}, Share: 0.5, Out: &bytes.Buffer{}}
}

// TestEveryServerThatIsInstalledIsMeasured checks that Outcry, the echo server and all installed servers
// are measured.
func TestEveryServerThatIsInstalledIsMeasured(t *testing.T) {
	budget.SkipUnlessFull(t, "that a server ends with the tool, and that its replies are checked")
	o := options(t)
	ctx := t.Context()
	root, err := harness.Root(ctx)
	require.NoError(t, err)
	program, err := harness.Build(ctx, root, "./cmd/outcryd", t.TempDir())
	require.NoError(t, err)
	o.Servers = []string{program}
	r, err := Run(ctx, o)
	require.NoError(t, err, o.Out)
	names := map[string]int{}
	for _, p := range r.Points {
		names[p.Server]++
		require.Positive(t, p.Rate, p)
		require.Positive(t, p.P99, p)
		require.Zero(t, p.Errors, p)
	}
	for _, s := range r.Servers {
		require.Equal(t, 4, names[s.Name], "%s: two loads, each at full speed and at half of it", s.Name)
	}
	require.Contains(t, names, "outcry")
	require.Contains(t, names, "echo")
	require.Len(t, r.Rows(), 4*len(r.Servers))
	left, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, processes.Children(os.Getpid()), "all servers have ended")
}

// TestAServerThatIsNotInstalledIsLeftOut checks that such a server is an error only if it was selected.
func TestAServerThatIsNotInstalledIsLeftOut(t *testing.T) {
	o := options(t)
	t.Setenv("PATH", t.TempDir())
	all, err := o.anchors()
	require.NoError(t, err)
	for _, a := range all {
		require.NotContains(t, []string{"redis", "etcd", "nats"}, a.name)
	}
	require.Contains(t, o.Out.(*bytes.Buffer).String(), "redis is left out: redis-server is not installed")
	o.Only = []string{"redis"}
	_, err = o.anchors()
	require.ErrorContains(t, err, "redis needs the program redis-server, which is not installed")
	o.Only = []string{"mongo"}
	_, err = o.anchors()
	require.ErrorContains(t, err, `unknown server "mongo"`)
}

// fake starts a server that answers each line with answer, unless answer is nil.
func fake(t *testing.T, answer func(n int) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1<<16)
				for n := 0; ; n++ {
					if _, err := c.Read(b); err != nil {
						return
					}
					if _, err := c.Write([]byte(answer(n))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// ended returns a process that has ended already.
func ended(t *testing.T, addr string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	require.NoError(t, harness.Start(cmd))
	require.NoError(t, cmd.Wait())
	return &process{cmd: cmd, addr: addr}
}

// TestAWrongReplyFailsTheRun checks that a wrong reply is detected at the start and in the middle of a
// run.
func TestAWrongReplyFailsTheRun(t *testing.T) {
	addr := fake(t, func(n int) string {
		if n == 2 {
			return "-MISCONF no\r\n"
		}
		return "+OK\r\n"
	})
	s := &running{anchor: anchor{name: "redis"}, server: &redis{ended(t, addr)}}
	_, err := s.once(t.Context(), Options{Duration: time.Second}, Shape{2, 1}, 0)
	require.ErrorContains(t, err, `redis: 2 wrong replies, for example: wrong reply: "-MISCONF no\r\n"`)
}

// TestWritesThatAreNotThereFailTheRun checks that a server that has lost writes is detected.
func TestWritesThatAreNotThereFailTheRun(t *testing.T) {
	told := 7
	addr := fake(t, func(int) string {
		text := "cmdstat_set:calls=" + strconv.Itoa(told) + ",x"
		return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n"
	})
	err := (&redis{ended(t, addr)}).check(t.Context(), 8)
	require.ErrorContains(t, err, `which has no "cmdstat_set:calls=8,"`)
}

// TestServersEndWithTheTool checks that the servers started so far end if a later one could not be started.
func TestServersEndWithTheTool(t *testing.T) {
	o := options(t)
	o.Servers = []string{"/bin/false"}
	_, err := Run(t.Context(), o)
	require.ErrorContains(t, err, "start outcry")
	require.Empty(t, processes.Children(os.Getpid()))
}

func TestEachServerIsFirstInARound(t *testing.T) {
	all := []*running{{anchor: anchor{name: "a"}}, {anchor: anchor{name: "b"}}, {anchor: anchor{name: "c"}}}
	var orders []string
	for round := range 4 {
		order := ""
		for _, s := range turned(all, round) {
			order += s.name
		}
		orders = append(orders, order)
	}
	require.Equal(t, []string{"abc", "bca", "cab", "abc"}, orders)
}

// steady is a server that answers a fixed number of requests a second, or fewer if it is sent fewer.
type steady struct {
	server
	most  float64
	asked []float64
}

func (s *steady) measure(_ context.Context, _ load.Options, rate float64) (*load.Result, error) {
	s.asked = append(s.asked, rate)
	if rate > s.most {
		return nil, errors.New("more than it does")
	}
	if rate == 0 {
		rate = s.most
	}
	return &load.Result{Requests: uint64(rate), Elapsed: time.Second, Latency: hdrhistogram.New(1, 2, 1),
		Sent: hdrhistogram.New(1, 2, 1)}, nil
}
func (s *steady) settle(context.Context) error        { return nil }
func (s *steady) used() (own, postgres time.Duration) { return 0, 0 }

// TestOnlyServersThatReachAShareAreAskedForIt checks that only servers whose own rate is higher than the share are
// measured at it, and that no share is measured at loads with several unanswered requests.
func TestOnlyServersThatReachAShareAreAskedForIt(t *testing.T) {
	o := Options{Share: 0.5, Of: "redis", Duration: time.Second, Out: &bytes.Buffer{}}
	servers := map[string]*steady{"redis": {most: 1000}, "slow": {most: 500}, "outcry": {most: 501}}
	var all []*running
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		all = append(all, &running{anchor: anchor{name: name}, server: servers[name]})
	}
	r := &Report{}
	require.NoError(t, r.turn(t.Context(), o, all, Shape{64, 1}, 0))
	require.NoError(t, r.turn(t.Context(), o, all, Shape{64, 16}, 0))
	require.Equal(t, []float64{0, 500, 0}, servers["redis"].asked)
	require.Equal(t, []float64{0, 0}, servers["slow"].asked)
	require.Equal(t, []float64{0, 500, 0}, servers["outcry"].asked)
	require.Contains(t, o.Out.(*bytes.Buffer).String(), "round 1, 64×1: slow did 500/s: too slow for 500")
	o.Of = "etcd"
	require.ErrorContains(t, r.turn(t.Context(), o, all, Shape{64, 1}, 0), "etcd was not measured")
}

func TestShareIsOfTheSameRound(t *testing.T) {
	r := &Report{Servers: []About{{Name: "redis"}, {Name: "outcry"}}}
	at := Shape{64, 1}
	for round, rates := range [][2]float64{{100, 50}, {200, 300}, {100, 90}} {
		for n, rate := range rates {
			p := &Point{Server: r.Servers[n].Name, At: at}
			p.Rate = rate
			r.add(p, round)
		}
	}
	rows := r.Rows()
	require.Len(t, rows, 2)
	require.Equal(t, load.Spread{Median: 0.9, Min: 0.5, Max: 1.5}, rows[1].OfRedis)
	require.Equal(t, load.Spread{}, rows[1].OfEcho)
}

// behind is a server that continues working for half a second after its last reply.
type behind struct {
	steady
	worked bool
}

func (b *behind) settle(context.Context) error { b.worked = true; return nil }

func (b *behind) used() (own, postgres time.Duration) {
	if b.worked {
		return 400 * time.Millisecond, 100 * time.Millisecond
	}
	return 0, 0
}

// TestTheCostIncludesWorkAfterTheLastReply checks that processor time is read only when the server has no work left.
func TestTheCostIncludesWorkAfterTheLastReply(t *testing.T) {
	s := &running{server: &behind{steady: steady{most: 1000}}}
	p, err := s.once(t.Context(), Options{Duration: time.Second}, Shape{64, 16}, 0)
	require.NoError(t, err)
	require.InDelta(t, 400, p.ServerCPU, 1e-9)
	require.InDelta(t, 100, p.PostgresCPU, 1e-9)
}

// TestServersListenBelowTheEphemeralPorts checks that a client's connection cannot take the port of a server.
func TestServersListenBelowTheEphemeralPorts(t *testing.T) {
	first, err := freeAddr()
	require.NoError(t, err)
	second, err := freeAddr(first)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	for _, addr := range []string{first, second} {
		at, err := netip.ParseAddrPort(addr)
		require.NoError(t, err)
		require.Less(t, at.Port(), uint16(32768))
	}
}
