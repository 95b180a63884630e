package postgres

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	growthMarks = flag.String("growth", "1000000,2000000", "`records` after which BenchmarkGrowth looks")
	growthBatch = flag.Int("growth-batch", 20_000, "`records` of each of its batches")
	growthEven  = flag.Bool("growth-even", false, "all accounts trade all symbols alike, instead of 64 a few symbols most")
)

// growthWindow is the number of records before each mark over which BenchmarkGrowth averages.
const growthWindow = 500_000

// spent is the total cost of all records so far.
type spent struct {
	records     uint64
	here, there time.Duration
	wal         int64
}

// BenchmarkGrowth lets the tables of a durable database grow. At each mark it prints the recent cost per
// record: processor time here and of all of Postgres, and bytes of Postgres's log. Run it with -benchtime 1x.
func BenchmarkGrowth(b *testing.B) {
	s, m := mustOpen(b, durableDatabase(b)), newMarket()
	if !*growthEven {
		m.few = 64
	}
	p := &Projector{options: ProjectorOptions{Store: s}, batch: newBatch()}
	now := func() (at spent) {
		at = spent{records: m.seq, here: cpu(b), there: postgresCPU(b, s.conn.PgConn().PID())}
		sql := `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`
		require.NoError(b, s.conn.QueryRow(background, sql).Scan(&at.wal))
		return at
	}
	project := func(size int) (made, took time.Duration) {
		made = -cpu(b)
		first := m.seq + 1
		records := m.records(size)
		made += cpu(b)
		return made, projectRecords(b, p, first, records)
	}
	for range 10 {
		project(5_000) // these make accounts and symbols
	}
	for b.Loop() {
		for mark := range strings.SplitSeq(*growthMarks, ",") {
			n, err := strconv.Atoi(mark)
			require.NoError(b, err)
			for int(m.seq) < n-growthWindow {
				project(*growthBatch)
			}
			begin, making := now(), time.Duration(0)
			var took time.Duration
			for int(m.seq) < n {
				made, t := project(*growthBatch)
				making, took = making+made, took+t
			}
			end, records := now(), float64(m.seq-begin.records)
			fmt.Fprintf(os.Stderr,
				"%10d records: here %5.0f ns, Postgres %5.0f ns, %4.0f bytes of log a record; %6.0f records/s\n",
				m.seq, float64(end.here-begin.here-making)/records, float64(end.there-begin.there)/records,
				float64(end.wal-begin.wal)/records, records/took.Seconds())
		}
	}
}
