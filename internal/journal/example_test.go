package journal_test

import (
	"context"
	"fmt"
	"os"

	"outcry/internal/journal"
)

func ExampleJournal() {
	dir, _ := os.MkdirTemp("", "journal")
	defer os.RemoveAll(dir)
	j, err := journal.Open(dir, journal.Options{Version: 1, SegmentBytes: 1 << 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	seq, _ := j.Append([]byte("order 7 was accepted"))
	// The record is durable once Wait returns nil.
	fmt.Println(seq, j.Wait(context.Background(), seq))
	j.Close()
	journal.Scan(dir, 1, func(seq uint64, record []byte) error {
		fmt.Printf("%d %s\n", seq, record)
		return nil
	})
	// Output:
	// 1 <nil>
	// 1 order 7 was accepted
}
