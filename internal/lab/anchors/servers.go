package anchors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/harness"
	"outcry/internal/lab/load"
	"outcry/internal/testing/processes"
)

// payload is the written data: an order, as Outcry receives it.
var payload = []byte(`<transactions id="2000000001"><order sym="ANCHOR1" amount="-1" limit="1"/></transactions>`)

// anchors returns the selected servers that are installed. The error names a selected server that is not
// installed.
func (o *Options) anchors() (found []anchor, err error) {
	all := []anchor{
		{"redis", "appendfsync always", []string{"redis-server"}, startRedis},
		{"echo", "nothing is written", nil, o.startEcho},
		{"postgres", "INSERT of one row, prepared; fsync and synchronous_commit are on", nil, startPostgres},
		{"etcd", "put over gRPC; every entry is synced", []string{"etcd"}, startEtcd},
		{"nats", "JetStream, a file store with sync_interval always, publish with ack", []string{"nats-server"}, startNATS},
	}
	for n, program := range o.Servers {
		name := "outcry"
		if n > 0 {
			name += " " + filepath.Base(program)
		}
		all = append(all, anchor{name, "an order a request; every reply waits for the journal's sync, Postgres follows", nil,
			func(ctx context.Context, dir string) (server, error) { return startOutcry(ctx, program, dir, false) }})
	}
	for _, name := range o.Only {
		if !slices.ContainsFunc(all, func(a anchor) bool { return a.name == name }) {
			return nil, fmt.Errorf("anchors: unknown server %q", name)
		}
	}
	for _, a := range all {
		asked := slices.Contains(o.Only, a.name)
		if len(o.Only) > 0 && !asked && !(slices.Contains(o.Only, "outcry") && strings.HasPrefix(a.name, "outcry ")) {
			continue
		}
		missing := ""
		for _, program := range a.needs {
			if _, err := exec.LookPath(program); err != nil {
				missing = program
			}
		}
		switch {
		case missing == "":
			found = append(found, a)
		case asked:
			return nil, fmt.Errorf("anchors: %s needs the program %s, which is not installed", a.name, missing)
		default:
			fmt.Fprintf(o.Out, "%s is left out: %s is not installed\n", a.name, missing)
		}
	}
	if len(found) == 0 {
		return nil, errNone
	}
	return found, nil
}

// process is a server that runs as a single process.
type process struct {
	cmd  *exec.Cmd
	log  *tail
	addr string
	done chan struct{}
}

// tail keeps the first bytes of a log, which show why a server did not start.
type tail struct{ bytes.Buffer }

const tailBytes = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	if room := tailBytes - t.Len(); room > 0 {
		t.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// startTimeout is how long a server may take to answer.
const startTimeout = 30 * time.Second

// launch starts a server that listens at addr, and waits until it accepts connections.
func launch(ctx context.Context, addr, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), log: new(tail), addr: addr, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := harness.Start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the exit status does not matter
		close(p.done)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return p, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s ended: %s", program, p.log)
		case <-ctx.Done():
			p.stop()
			return nil, fmt.Errorf("%s accepts no connections: %w: %s", program, ctx.Err(), p.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // the process may have ended already
	<-p.done
}

func (p *process) used() (own, postgres time.Duration) {
	return processes.FamilyCPU(p.cmd.Process.Pid), 0
}

func (p *process) settle(context.Context) error { return nil }

// freeAddr returns an unused address other than taken, with a port below the system's ephemeral ports.
func freeAddr(taken ...string) (string, error) {
	for port := 21000 + os.Getpid()%4000; port < 32000; port++ {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if slices.Contains(taken, addr) {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr, nil
		}
	}
	return "", errors.New("no port is free")
}

// prepared is a Source of prepared requests that all expect the same reply.
type prepared struct {
	requests [][]byte
	next     int
	good     func(reply []byte) bool
}

// Next implements load.Source.
func (s *prepared) Next() []byte {
	r := s.requests[s.next]
	if s.next++; s.next == len(s.requests) {
		s.next = 0
	}
	return r
}

// Reply implements load.Source.
func (s *prepared) Reply(b []byte) error {
	if !s.good(b) {
		return fmt.Errorf("wrong reply: %.200q", b)
	}
	return nil
}

// keys is how many keys each connection writes to in turn.
const keys = 100

// send runs a load of prepared requests.
func send(ctx context.Context, o load.Options, rate float64, source func(connection int) load.Source) (*load.Result,
	error) {
	var sources []load.Source
	for n := range o.Connections { // prepared before time is measured
		sources = append(sources, source(n))
	}
	made := func(connection int) load.Source { return sources[connection] }
	if rate > 0 {
		return load.Open(ctx, o, int(rate), made)
	}
	return load.Closed(ctx, o, made)
}

// ask sends a request over a new connection and returns the reply, whose end the codec recognizes.
func ask(ctx context.Context, addr string, greet func(net.Conn) (load.Codec, error), request []byte) (string, error) {
	asked := &once{request: request}
	o := load.Options{Addrs: []string{addr}, Connections: 1, Greet: greet}
	_, err := load.Closed(ctx, o, func(int) load.Source { return asked })
	return asked.reply, err
}

// once is a source of a single request.
type once struct {
	request []byte
	reply   string
}

// Next implements load.Source.
func (s *once) Next() (request []byte) {
	request, s.request = s.request, nil
	return request
}

// Reply implements load.Source.
func (s *once) Reply(b []byte) error { s.reply = string(b); return nil }

// startEcho starts an echo server whose replies are as long as Outcry's.
func (o *Options) startEcho(ctx context.Context, _ string) (server, error) {
	cmd := exec.CommandContext(ctx, o.Echo[0], append(o.Echo[1:], "-reply", "80")...)
	addr, end, err := load.StartEcho(cmd)
	if err != nil {
		return nil, err
	}
	return &echoServer{addr, cmd, end}, nil
}

type echoServer struct {
	addr string
	cmd  *exec.Cmd
	end  func()
}

func (e *echoServer) measure(ctx context.Context, o load.Options, rate float64) (*load.Result, error) {
	o.Addrs = []string{e.addr}
	return send(ctx, o, rate, func(int) load.Source {
		return &prepared{requests: [][]byte{payload}, good: func(b []byte) bool {
			return bytes.HasPrefix(b, []byte("<results>"))
		}}
	})
}

func (e *echoServer) settle(context.Context) error        { return nil }
func (e *echoServer) check(context.Context, uint64) error { return nil }
func (e *echoServer) stop()                               { e.end() }
func (e *echoServer) used() (own, postgres time.Duration) {
	return processes.FamilyCPU(e.cmd.Process.Pid), 0
}
