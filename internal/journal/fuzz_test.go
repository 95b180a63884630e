package journal

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// recomputed returns a header with its checksum made right.
func recomputed(header []byte) []byte {
	binary.LittleEndian.PutUint32(header[60:], crc32.Checksum(header[:60], castagnoli))
	return header
}

// FuzzSegment reads arbitrary bytes as the only segment of a journal: whatever
// comes out has a right checksum, and what Open leaves can be opened again with
// the same records.
func FuzzSegment(f *testing.F) {
	id := [16]byte{7}
	good := appendHeader(nil, id, 1)
	for seq := uint64(1); seq <= 4; seq++ {
		good = appendRecord(good, seq, seq-1, payload(seq, int(seq)*9))
	}
	f.Add(good)
	f.Add(appendRecord(good, 4, 4, nil))
	f.Add(good[:len(good)-5])
	f.Add(appendHeader(nil, id, 1))
	f.Add([]byte(magic))
	huge := append([]byte(nil), good...)
	binary.LittleEndian.PutUint32(huge[segmentHeader:], 0xfffffff0)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := newMemFS()
		s := segment{segmentPath(memDir, 1), 1}
		if len(b) >= segmentHeader {
			recomputed(b)
		}
		fs.files[s.path] = &memFile{fs: fs, data: b, safe: b}
		n := uint64(0)
		count := func(_ segment, r record) error {
			n++
			if r.seq != n || len(r.payload) == 0 {
				t.Fatalf("record %d of %d bytes comes as number %d", r.seq, len(r.payload), n)
			}
			return nil
		}
		if _, err := scan(fs, memDir, count, nil); err != nil {
			return
		}
		j, err := open(fs, memDir, small)
		if err != nil {
			return // damage
		}
		if j.Synced() != n {
			t.Fatalf("%d records were read, the journal goes on after %d", n, j.Synced())
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		before := n
		n = 0
		if _, err := scan(fs, memDir, count, nil); err != nil || n != before {
			t.Fatalf("after a cut %d records of %d can be read: %v", n, before, err)
		}
	})
}
