package grade

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/throughput"
)

const durabilityGroup = "durability"

// loadCase is the case of the group load.
var loadCase = &script.Case{Name: loadGroup + "/throughput", Group: loadGroup, Rule: "5",
	Tell:   "The server answers many orders per second, relative to what this machine can do.",
	Points: 1, Time: 3*throughput.DurationUsual + 10*time.Second}

// A run's salt is the time in tenths of a second. If the server already has accounts of that salt, the next salt is
// tried.
const (
	saltStep = 100 * time.Millisecond
	saltsMax = 5
)

// wire is the driver of a real run: it talks to the target over TCP.
type wire struct {
	r         *runner
	salt      int64 // the player's salt as a number
	player    *script.Player
	connector *dialect.Connector
}

func newWire(r *runner) *wire {
	w := &wire{r: r}
	w.setSalt(time.Now().UnixNano() / int64(saltStep))
	return w
}

// setSalt makes a player whose account ids derive from salt n.
func (w *wire) setSalt(n int64) {
	w.salt = n % 1e10
	w.player = &script.Player{Seed: w.r.p.Seed, Salt: strconv.FormatInt(w.salt, 10)}
	if w.r.o.Target.CanKill() {
		w.player.Kill = w.r.restart
	}
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.salt = w.player.Salt
}

func (w *wire) probe(ctx context.Context) (dialect.Habits, error) {
	to := &dialect.Connector{Open: w.open, Options: dialect.Options{ReplyTime: w.r.p.Frame}}
	habits, remarks, err := dialect.Probe(ctx, to, w.player.Account, w.r.p.Habits)
	for _, remark := range remarks {
		w.r.remark(remark)
	}
	if err != nil {
		return habits, err
	}
	w.connector = &dialect.Connector{Open: w.dial,
		Options: dialect.Options{Habits: habits, Remark: w.r.remark, ReplyTime: w.r.p.Frame}}
	for range saltsMax {
		reply, err := w.create(ctx)
		if err != nil || len(reply.Root.Children) == 0 || reply.Root.Children[0].Name != "error" {
			break
		}
		w.setSalt(w.salt + 1)
	}
	w.player.Dialer, w.player.Habits = w.connector, habits
	return habits, nil
}

// open opens a connection for probing. If the previous frame made the server crash, open restarts the server.
func (w *wire) open(ctx context.Context) (net.Conn, error) {
	conn, err := w.dial(ctx)
	if err == nil || ctx.Err() != nil || !w.r.o.Target.CanKill() || w.r.restart(ctx) != nil {
		return conn, err
	}
	return w.dial(ctx)
}

// dial opens a connection to the target's current address, which a start may have changed. If the target still
// holds the connection by which it saw that the server is ready, dial returns that one.
func (w *wire) dial(ctx context.Context) (net.Conn, error) {
	if conn := w.r.o.Target.First(); conn != nil {
		return conn, nil
	}
	d := net.Dialer{Timeout: w.r.p.Frame}
	return d.DialContext(ctx, "tcp", w.r.o.Target.Addr())
}

func (w *wire) play(ctx context.Context, c *script.Case) script.Outcome { return w.player.Play(ctx, c) }

func (w *wire) ask(ctx context.Context) error {
	_, err := w.create(ctx)
	if broken := new(dialect.Broken); errors.As(err, &broken) &&
		(broken.Kind == dialect.NotXML || broken.Kind == dialect.TooLarge) {
		return nil
	}
	return err
}

// create opens an account, on a new connection.
func (w *wire) create(ctx context.Context) (*dialect.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, w.r.p.Frame)
	defer cancel()
	conn, err := w.connector.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(ctx, `<create><account id="`+w.player.Account()+`" balance="1"/></create>`)
}

func (w *wire) load(ctx context.Context) script.Outcome {
	p := &w.r.p.Load
	measured, err := throughput.Measure(ctx, throughput.Options{Addr: w.r.o.Target.Addr(), Habits: w.player.Habits,
		Salt: w.player.Salt, Connections: p.Connections, Duration: p.Duration})
	return throughput.Outcome(measured, err, p.Steps)
}
