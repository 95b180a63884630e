package journal

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSegment reads arbitrary bytes after a valid header as the only segment of a journal. The records that
// are read must be in the input, nothing large may be allocated, and after Open has recovered the journal
// it must contain the same records.
func FuzzSegment(f *testing.F) {
	var good []byte
	for seq := uint64(1); seq <= 4; seq++ {
		good = appendRecord(good, seq, seq-1, payload(seq, int(seq)*9))
	}
	f.Add([]byte(nil))
	f.Add(good)
	f.Add(appendRecord(bytes.Clone(good), 4, 4, nil))
	f.Add(good[:len(good)-5])
	f.Add(appendRecord(append(bytes.Clone(good), make([]byte, 40)...), 6, 5, []byte("proof")))
	f.Add(appendRecord(append(bytes.Clone(good), make([]byte, 40)...), 6, 4, []byte("torn")))
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge, 0xfffffff0)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := newMemFS()
		path := segmentPath(memDir, 1)
		size := segmentHeader + padded(len(b)) + recordHeader // leaves room for an end mark, as the journal does
		segment := make([]byte, size)
		copy(segment, segmentHead([16]byte{7}, newest, 1, int64(size)))
		copy(segment[segmentHeader:], b)
		fs.put(path, segment)
		read := func() (all []byte, n uint64, err error) {
			_, err = scan(fs, memDir, newest, func(r record) error {
				n++
				require.Equal(t, n, r.seq)
				all = appendRecord(all, r.seq, r.durable, r.payload)
				return nil
			})
			return all, n, err
		}
		records, n, err := read()
		require.True(t, bytes.HasPrefix(segment[segmentHeader:], records), "what was read is what is there")
		j, openErr := open(fs, memDir, small)
		if err != nil {
			var damage *DamageError
			require.ErrorAs(t, openErr, &damage)
			return
		}
		require.NoError(t, openErr)
		require.Equal(t, n, j.Synced())
		require.NoError(t, j.Close())
		again, _, err := read()
		require.NoError(t, err)
		require.Equal(t, records, again)
	})
}

// FuzzHeader reads arbitrary bytes as a segment: it must be refused unless the whole header is valid.
func FuzzHeader(f *testing.F) {
	good := segmentHead([16]byte{7}, newest, 1, 2*segmentHeader)
	f.Add(append(bytes.Clone(good), make([]byte, segmentHeader)...))
	f.Add(good)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, _, err := parseHead(segment{path: "x", first: 1}, b, newest)
		if err == nil {
			require.Equal(t, segmentHead(id, newest, 1, int64(len(b)))[16:48], b[16:48])
		}
	})
}
