package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/budget"
)

// content is the content of a test's backup.
type content struct {
	header Header
	tables []Table
	rows   []string
	files  []File
}

// sample returns a table of two blocks, a table without rows, and a file.
func sample() content {
	long := make([]byte, contentBytesMax+100)
	for i := range long {
		long[i] = "0123456789\t\n"[i%12]
	}
	return content{
		header: Header{Program: "v1", Postgres: "15.3", Begun: time.Unix(1, 0).UTC(), Taken: time.Unix(2, 0).UTC(),
			Journal: hexID{1, 2}, Seq: 7,
			Ack: "journal", Epoch: 3, Schema: 4, Digest: hexDigest{5}, Listing: "outcry state 1"},
		tables: []Table{{Name: "accounts", Columns: []string{"id", "opened"}}, {Name: "symbols"}, {Name: "orders"}},
		rows:   []string{"1\t2\n3\t4\n", "", string(long)},
		files:  []File{{Name: "tokens", Content: []byte("hash\n")}},
	}
}

// encode writes a backup.
func (c content) encode(t testing.TB) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, c.header)
	require.NoError(t, err)
	for i, table := range c.tables {
		require.NoError(t, w.BeginTable(table))
		for rest := []byte(c.rows[i]); len(rest) > 0; {
			n := min(len(rest), 1+i*50_000)
			_, err := w.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.NoError(t, w.EndTable(int64(i)))
	}
	for _, f := range c.files {
		require.NoError(t, w.AddFile(f))
	}
	_, err = w.Close(time.Unix(3, 0).UTC())
	require.NoError(t, err)
	return file.Bytes()
}

// decode reads a whole backup.
func decode(file []byte) (c content, t Trailer, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return c, t, err
	}
	c.header = r.Header()
	for {
		s, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return c, r.Trailer(), nil
		case err != nil:
			return c, t, err
		case s.File != nil:
			c.files = append(c.files, *s.File)
			continue
		}
		rows, err := io.ReadAll(r)
		if err != nil {
			return c, t, err
		}
		c.tables, c.rows = append(c.tables, *s.Table), append(c.rows, string(rows))
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	want := sample()
	file := want.encode(t)
	got, trailer, err := decode(file)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []TableEnd{{"accounts", 0, 8}, {"symbols", 1, 0}, {"orders", 2, contentBytesMax + 100}},
		trailer.Tables)
	require.Equal(t, []string{"tokens"}, trailer.Files)
	header, checked, err := Check(bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, want.header, header)
	require.Equal(t, trailer, checked)
}

// small returns a backup that is short enough to damage each of its bytes in turn.
func small(t testing.TB) []byte {
	c := sample()
	c.rows[2] = "5\n"
	return c.encode(t)
}

// TestEveryFlippedByteIsFound changes a bit in each byte of a backup, one at a time.
func TestEveryFlippedByteIsFound(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	file := small(t)
	for at := range file {
		file[at] ^= 1 << (at % 8)
		_, _, err := Check(bytes.NewReader(file))
		file[at] ^= 1 << (at % 8)
		require.Error(t, err, "offset %d", at)
		var damage *DamageError
		if at >= 12 { // a change in the magic or the version is not reported as damage
			require.ErrorAs(t, err, &damage, "offset %d", at)
			require.LessOrEqual(t, damage.Offset, int64(at))
		}
	}
	_, _, err := Check(bytes.NewReader(file))
	require.NoError(t, err)
}

func TestAFileThatIsCutOffIsRefused(t *testing.T) {
	file := small(t)
	for length := range file {
		_, _, err := Check(bytes.NewReader(file[:length]))
		var damage *DamageError
		require.ErrorAs(t, err, &damage, "%d bytes", length)
		require.Contains(t, damage.Reason, "cut off here")
	}
	whole := sample().encode(t)
	_, _, err := Check(bytes.NewReader(whole[:len(whole)/2]))
	require.ErrorContains(t, err, "in the table orders: the file is cut off here")
}

// blocks splits a file into its prefix and blocks.
func blocks(file []byte) (prefix []byte, all [][]byte) {
	prefix = file[:prefixBytes]
	for rest := file[prefixBytes:]; len(rest) > 0; {
		n := headBytes + int(binary.LittleEndian.Uint32(rest[12:]))
		all, rest = append(all, rest[:n]), rest[n:]
	}
	return prefix, all
}

// resealed returns a block with another number and a matching checksum.
func resealed(block []byte, number int) []byte {
	block = slices.Clone(block)
	binary.LittleEndian.PutUint32(block[4:], uint32(number))
	binary.LittleEndian.PutUint32(block[16:], checksum(block[:headBytes], block[headBytes:]))
	return block
}

// TestBlocksAreWhereTheyWereWritten moves, removes and repeats whole blocks.
func TestBlocksAreWhereTheyWereWritten(t *testing.T) {
	file := small(t)
	prefix, all := blocks(file)
	other := sample()
	other.rows[2], other.rows[0] = "5\n", "1\t2\n3\t5\n"
	_, others := blocks(other.encode(t))
	last := len(all) - 1
	for name, test := range map[string]struct {
		blocks [][]byte
		want   string
	}{
		"a block left out":   {slices.Delete(slices.Clone(all), 2, 3), "block 3 is in the place of block 2"},
		"a block twice":      {slices.Insert(slices.Clone(all), 2, all[2]), "block 2 is in the place of block 3"},
		"two blocks in turn": {append(append(slices.Clone(all[:2]), all[3], all[2]), all[4:]...), "block 3 is in the place"},
		"a block of another backup": {append(append(slices.Clone(all[:2]), others[2]), all[3:]...),
			"its SHA-256 differs from the file's"},
		"something after the end":    {append(slices.Clone(all), []byte{0}), "something follows the trailer"},
		"no header":                  {[][]byte{resealed(all[1], 0)}, "a backup begins with its header"},
		"the header twice":           {[][]byte{all[0], resealed(all[0], 1)}, "it is outside of a table, or repeated"},
		"rows outside of a table":    {[][]byte{all[0], resealed(all[2], 1)}, "it is outside of a table"},
		"a table that does not end":  {[][]byte{all[0], all[1], resealed(all[last], 2)}, "table accounts has not ended"},
		"a table's end of another":   {[][]byte{all[0], all[1], resealed(all[5], 2)}, "it is of table symbols with 0 bytes"},
		"a trailer that is too soon": {[][]byte{all[0], resealed(all[last], 1)}, "its SHA-256 differs from the file's"},
	} {
		_, _, err := Check(bytes.NewReader(bytes.Join(append([][]byte{prefix}, test.blocks...), nil)))
		var damage *DamageError
		require.ErrorAs(t, err, &damage, name)
		require.ErrorContains(t, err, test.want, name)
	}
}

// The trailer lists other content than the file has; all checksums match.
func TestATrailerThatFitsAnotherContentIsRefused(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, sample().header)
	require.NoError(t, err)
	w.trailer.Tables = []TableEnd{{"accounts", 1, 1}}
	_, err = w.Close(time.Now())
	require.NoError(t, err)
	_, _, err = Check(&file)
	require.ErrorContains(t, err, "it lists other tables, rows or files than those before it")
}

func TestWhatIsNoBackupOfThisProgramIsRefused(t *testing.T) {
	newer := small(t)
	newer[8] = 2
	for want, file := range map[string][]byte{
		"the file is not a backup":                           bytes.Repeat([]byte("OUTCRYJL"), 10),
		"has format version 2, this program reads version 1": newer,
		"in the prefix: the file is cut off here":            nil,
	} {
		_, _, err := Check(bytes.NewReader(file))
		require.ErrorContains(t, err, want)
	}
}

// The lengths in a block's head are larger than those of any block, or its content is longer than stated.
func TestABlockThatClaimsToBeHugeTakesNoMemory(t *testing.T) {
	file := small(t)
	for _, at := range []int{8, 12} {
		huge := slices.Clone(file)
		binary.LittleEndian.PutUint32(huge[prefixBytes+at:], 1<<31)
		_, _, err := Check(bytes.NewReader(huge))
		require.ErrorContains(t, err, "larger than any block")
	}
	binary.LittleEndian.PutUint32(file[prefixBytes+8:], 3)
	stored := int(binary.LittleEndian.Uint32(file[prefixBytes+12:]))
	copy(file[prefixBytes:], resealed(file[prefixBytes:prefixBytes+headBytes+stored], 0))
	_, _, err := Check(bytes.NewReader(file))
	require.ErrorContains(t, err, "4 bytes or more instead of 3")
}

// TestAWriterStaysFailed lets each write in turn fail for want of space.
func TestAWriterStaysFailed(t *testing.T) {
	full := errors.New("full")
	for room := range 8 {
		written := 0
		w, err := NewWriter(writerFunc(func(p []byte) (int, error) {
			if written++; written > room {
				return 0, full
			}
			return len(p), nil
		}), Header{})
		if err == nil {
			_ = w.BeginTable(Table{Name: "a"})
			_, _ = w.Write([]byte("row"))
			_ = w.EndTable(1)
			_ = w.AddFile(File{})
			_, err = w.Close(time.Now())
		}
		if room < 7 {
			require.ErrorIs(t, err, full, "room %d", room)
		} else {
			require.NoError(t, err)
		}
	}
	w, err := NewWriter(io.Discard, Header{})
	require.NoError(t, err)
	_, err = w.Write(nil)
	require.ErrorContains(t, err, "rows outside of a table")
	w, err = NewWriter(io.Discard, Header{})
	require.NoError(t, err)
	require.ErrorContains(t, w.AddFile(File{Content: make([]byte, fileBytesMax+1<<10)}), "the limit is")
}

// The file's content cannot be compressed.
func TestTheLargestSmallFileIsRead(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	tokens := File{Name: "tokens", Content: make([]byte, fileBytesMax)}
	_, _ = rand.NewChaCha8([32]byte{2}).Read(tokens.Content)
	got, _, err := decode(content{files: []File{tokens}}.encode(t))
	require.NoError(t, err)
	require.True(t, bytes.Equal(tokens.Content, got.files[0].Content))
}

// FuzzCheck reads arbitrary bytes. If they are accepted as a backup, writing the content again must give a
// backup with the same content.
func FuzzCheck(f *testing.F) {
	file := small(f)
	f.Add(file)
	f.Add(file[:len(file)/2])
	prefix, all := blocks(file)
	for i := range all {
		f.Add(append(append(slices.Clone(prefix), all[0]...), resealed(all[i], 1)...))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, trailer, err := decode(file)
		if err != nil {
			return
		}
		again, trailerAgain, err := decode(c.encode(t))
		require.NoError(t, err)
		require.Equal(t, c, again)
		require.Equal(t, trailer.Files, trailerAgain.Files)
		require.Len(t, trailerAgain.Tables, len(trailer.Tables))
	})
}

// TestRowsComeBackWhateverTheyAre writes random rows in random pieces.
func TestRowsComeBackWhateverTheyAre(t *testing.T) {
	budget.SkipRaced(t, "one goroutine")
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for range 5 {
		rows := make([]byte, r.IntN(3*contentBytesMax))
		for i := range rows {
			rows[i] = byte(r.Uint32() >> r.IntN(32))
		}
		c := content{header: Header{Seq: r.Uint64()}, tables: []Table{{Name: fmt.Sprint(r.IntN(9))}},
			rows: []string{string(rows)}}
		got, _, err := decode(c.encode(t))
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, sha256.Sum256(rows), sha256.Sum256([]byte(got.rows[0])), "seed %d", seed)
	}
}
