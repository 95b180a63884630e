package exchange

import (
	"testing"
	"time"
)

// quietSlice is the number of commands that are timed together.
const quietSlice = 2_000

// BenchmarkQuiet is BenchmarkBook and BenchmarkOrderPath for a machine that is also busy with
// other work: the flow runs repeatedly, and the shortest time of each slice counts. So the
// result excludes interference by other processes and our own pauses, such as for the
// garbage collector. An iteration is a whole flow; 14 are enough:
//
//	go test -run '^$' -bench Quiet -benchtime 14x ./internal/exchange
//
// bare is a book that does less (see bareBook), for comparison.
func BenchmarkQuiet(b *testing.B) {
	for _, spread := range spreads {
		f := newFlow(spread.ticks)
		accounts := make([]*Account, len(f.accounts))
		for i, id := range f.accounts {
			accounts[i] = &Account{ID: id}
		}
		var book *Book
		var fills []Fill
		run := func(s *step) {
			if s.cancel {
				s.revoke(book, accounts)
			} else {
				fills = s.submit(book, accounts, fills[:0])
			}
		}
		b.Run("book/"+spread.name, func(b *testing.B) {
			quiet(b, f, func() {
				book = NewBook()
				for i := range f.begin {
					run(&f.begin[i])
				}
			}, run)
		})
		var path *orderPath
		b.Run("path/"+spread.name, func(b *testing.B) {
			quiet(b, f, func() { path = newOrderPath(f) }, func(s *step) { path.run(s) })
		})
		var bare *bareBook
		b.Run("bare/"+spread.name, func(b *testing.B) {
			quiet(b, f, func() { bare = newBareBook(f) }, func(s *step) { bare.run(s) })
		})
	}
}

// quiet runs the steps of a flow repeatedly. begin runs before each repetition and is not measured.
func quiet(b *testing.B, f *flow, begin func(), run func(*step)) {
	least := make([]time.Duration, len(f.steps)/quietSlice)
	for b.Loop() {
		begin()
		for k := range least {
			slice := f.steps[k*quietSlice:][:quietSlice]
			start := time.Now()
			for i := range slice {
				run(&slice[i])
			}
			if d := time.Since(start); least[k] == 0 || d < least[k] {
				least[k] = d
			}
		}
	}
	sum := time.Duration(0)
	for _, d := range least {
		sum += d
	}
	commands := float64(len(least) * quietSlice)
	b.ReportMetric(float64(sum)/commands, "ns/command")
	b.ReportMetric(commands/sum.Seconds()/1e6, "Mcommands/s")
}
