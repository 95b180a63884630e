package anchors

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/load"
	"outcry/internal/postgres/local"
	"outcry/internal/testing/processes"
)

// postgres is a Postgres with one table.
type postgres struct {
	*local.Cluster
	dir string
}

func startPostgres(ctx context.Context, dir string) (server, error) {
	c, err := local.Start(ctx, local.Options{Dir: filepath.Join(dir, "postgres"), Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"max_connections": fmt.Sprint(connectionsMax + 10)}})
	if err != nil {
		return nil, err
	}
	p := &postgres{c, filepath.Join(dir, "postgres")}
	err = p.with(ctx, func(db *pgx.Conn) error {
		_, err := db.Exec(ctx, "CREATE TABLE anchor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)")
		return err
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// with calls do with a new connection.
func (p *postgres) with(ctx context.Context, do func(*pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	return do(db)
}

// check implements server. All rows must exist, and commits must be synchronous.
func (p *postgres) check(ctx context.Context, writes uint64) error {
	return p.with(ctx, func(db *pgx.Conn) error {
		var rows uint64
		var fsync, commit string
		err := db.QueryRow(ctx, `SELECT count(*), current_setting('fsync'), current_setting('synchronous_commit')
			FROM anchor`).
			Scan(&rows, &fsync, &commit)
		if err == nil && (rows != writes || fsync != "on" || commit != "on") {
			err = fmt.Errorf("%d rows instead of %d, fsync %s, synchronous_commit %s", rows, writes, fsync, commit)
		}
		return err
	})
}

func (p *postgres) settle(context.Context) error { return nil }

func (p *postgres) used() (own, postgres time.Duration) { return processes.FamilyCPU(p.Pid()), 0 }

func (p *postgres) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = p.Stop(ctx)
	_ = local.Remove(p.dir)
}

func (p *postgres) measure(ctx context.Context, o load.Options, rate float64) (*load.Result, error) {
	u, err := url.Parse(p.URL())
	if err != nil {
		return nil, err
	}
	q := u.Query()
	o.Addrs = []string{q.Get("host") + "/.s.PGSQL." + q.Get("port")}
	o.Greet = func(c net.Conn) (load.Codec, error) { return greetPostgres(c, q.Get("user"), u.Path[1:]) }
	return send(ctx, o, rate, func(int) load.Source {
		return &prepared{requests: [][]byte{insertRow}, good: func(b []byte) bool { return string(b) == insertedRow }}
	})
}

// pgMessage appends a protocol message to b. kind 0 means a message without a type byte.
func pgMessage(b []byte, kind byte, body ...byte) []byte {
	if kind != 0 {
		b = append(b, kind)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(4+len(body))), body...)
}

// insertRow executes the statement that greetPostgres has prepared, in its own transaction.
var insertRow = func() []byte {
	bind := append([]byte("\x00insert\x00\x00\x00\x00\x01"), binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
	bind = append(append(bind, payload...), 0, 0)
	b := pgMessage(nil, 'B', bind...)
	b = pgMessage(b, 'E', 0, 0, 0, 0, 0)
	return pgMessage(b, 'S')
}()

// insertedRow is the expected reply: bind complete, one row inserted, ready outside a transaction.
const insertedRow = "2\x00\x00\x00\x04C\x00\x00\x00\x0fINSERT 0 1\x00Z\x00\x00\x00\x05I"

// greetPostgres starts a session and prepares the insert.
func greetPostgres(c net.Conn, user, database string) (load.Codec, error) {
	hello := "\x00\x03\x00\x00user\x00" + user + "\x00database\x00" + database + "\x00\x00"
	if err := pgAsk(c, pgMessage(nil, 0, []byte(hello)...)); err != nil {
		return nil, err
	}
	parse := pgMessage(nil, 'P', []byte("insert\x00INSERT INTO anchor (body) VALUES ($1)\x00\x00\x00")...)
	return pgwire{}, pgAsk(c, pgMessage(parse, 'S'))
}

// pgAsk sends a request and reads until ReadyForQuery.
func pgAsk(c net.Conn, request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	for {
		var head [5]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[1:])) - 4
		if n < 0 || n > pgMessageMax {
			return fmt.Errorf("not Postgres: %q", head)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(c, body); err != nil {
			return err
		}
		switch {
		case head[0] == 'E' || head[0] == 'R' && string(body) != "\x00\x00\x00\x00":
			return fmt.Errorf("refused by Postgres: %q %q", head[0], body)
		case head[0] == 'Z':
			return nil
		}
	}
}

// pgMessageMax is the largest message accepted.
const pgMessageMax = 1 << 20

// pgwire is the codec for Postgres messages. A reply ends with ReadyForQuery.
type pgwire struct{}

// Append implements load.Codec.
func (pgwire) Append(out, request []byte) []byte { return append(out, request...) }

// Cut implements load.Codec.
func (pgwire) Cut(in []byte) (reply []byte, n int, err error) {
	for len(in)-n >= 5 {
		kind, size := in[n], int(binary.BigEndian.Uint32(in[n+1:]))
		if size < 4 || size > pgMessageMax {
			return nil, 0, fmt.Errorf("not Postgres: %.40q", in[n:])
		}
		if n += 1 + size; n > len(in) {
			return nil, 0, nil
		}
		if kind == 'Z' {
			return in[:n:n], n, nil
		}
	}
	if n > pgMessageMax {
		return nil, 0, fmt.Errorf("a reply of more than %d bytes", pgMessageMax)
	}
	return nil, 0, nil
}
