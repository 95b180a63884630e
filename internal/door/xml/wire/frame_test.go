package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"outcry/internal/lab/model"
)

// testFrameMax is the largest frame in these tests; it is small to keep the tables readable.
const testFrameMax = 100

// readFrames reads all frames of a stream and returns them with the error at the end.
func readFrames(t require.TestingT, r io.Reader) (frames []string, err error) {
	f := NewFrameReader(r, testFrameMax)
	for {
		frame, err := f.Next()
		if err != nil {
			_, again := f.Next()
			require.Equal(t, err, again, "an error is final")
			return frames, err
		}
		frames = append(frames, string(frame))
	}
}

func TestStreamIsCutIntoFrames(t *testing.T) {
	for stream, want := range map[string][]string{
		"":                                     nil,
		"\n \r\n\n  ":                          nil,
		"4\n<a/>":                              {"<a/>"},
		"4\r\n<a/>":                            {"<a/>"},
		"  4\n<a/>":                            {"<a/>"},
		"\n\r\n \n4\n<a/>":                     {"<a/>"},
		"  \r\n4\n<a/>":                        {"<a/>"},
		"0000004\n<a/>":                        {"<a/>"},
		"4\n<a/>4\n<b/>":                       {"<a/>", "<b/>"},
		"4\n<a/>\n\n4\n<b/>\n":                 {"<a/>", "<b/>"},
		"0\n":                                  {""},
		"0\n0\n4\n<a/>":                        {"", "", "<a/>"},
		"5\n4\n<a>":                            {"4\n<a>"},
		"2\n\r\n2\n\n\n":                       {"\r\n", "\n\n"},
		"100\n" + hundred:                      {hundred},
		strings.Repeat("0", 1022) + "4\n<a/>":  {"<a/>"},
		strings.Repeat(" ", 9999) + "4\n<a/>":  {"<a/>"},
		strings.Repeat("\n", 9999) + "4\n<a/>": {"<a/>"},
		strings.Repeat("4\n<a/>", 5000):        slicesOf("<a/>", 5000),
	} {
		frames, err := readFrames(t, strings.NewReader(stream))
		require.Equal(t, io.EOF, err, "%.40q", stream)
		require.Equal(t, want, frames, "%.40q", stream)
	}
}

var hundred = strings.Repeat("x", 100)

func slicesOf(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

func TestStreamThatEndsWithinAFrameSaysSo(t *testing.T) {
	for _, stream := range []string{"4", "4\r", "4\n", "4\n<a/", " 4", "\r", "4\n<a/>4\n<a/", "00",
		"99999999999999999999"} {
		frames, err := readFrames(t, strings.NewReader(stream))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", stream)
		require.Len(t, frames, strings.Count(stream, ">"))
	}
}

func TestLengthLineThatIsNoneEndsTheStream(t *testing.T) {
	for stream, text := range map[string]string{
		"x\n":             `not with "x"`,
		"<create/>":       `not with "<create/>"`,
		"-4\n<a/>":        `not with "-4"`,
		"+4\n<a/>":        `not with "+4"`,
		"4 \n<a/>":        `not with "4 "`,
		"4\t\n<a/>":       `not with "4\t"`,
		"\t4\n<a/>":       `not with "\t4"`,
		"4 0\n<a/>":       `not with "4 0"`,
		"0x4\n<a/>":       `not with "0x4"`,
		"4.0\n<a/>":       `not with "4.0"`,
		"4\r\r\n<a/>":     `not with "4\r\r"`,
		"\r\r\n4\n<a/>":   `not with "\r\r"`,
		"\rx":             `not with "\rx"`,
		"\xff\xfe4\n<a/>": `not with "\xff\xfe4"`,
		"GET / HTTP/1.1 and what browsers say\r\n": `not with "GET / HTTP/1.1 and what "…`,
		"101\n":                          "a frame of 101 bytes is over the limit of 100",
		"000101\r\n":                     "a frame of 101 bytes is over the limit of 100",
		"18446744073709551620\n<a/>":     "a frame of 18446744073709551620 bytes is over the limit of 100",
		strings.Repeat("9", 1000) + "\n": "a frame of " + strings.Repeat("9", 64) + "… bytes is over the limit of 100",
		strings.Repeat("0", 1025):        "a frame's length line has more than 1024 digits",
		strings.Repeat("1", 5000):        "a frame's length line has more than 1024 digits",
	} {
		frames, err := readFrames(t, strings.NewReader("4\n<a/>"+stream))
		require.Equal(t, []string{"<a/>"}, frames, "what came before %.40q", stream)
		var bad *FrameError
		require.ErrorAs(t, err, &bad, "%.40q", stream)
		require.Contains(t, bad.Text, text)
		require.Equal(t, bad.Text, err.Error())
	}
}

func TestFramesBeforeTheStreamsErrorAreRead(t *testing.T) {
	broken := errors.New("broken")
	for _, stream := range []string{"4\n<a/>", "4\n<a/>4\n<b", "4\n<a/>\n"} {
		frames, err := readFrames(t, io.MultiReader(strings.NewReader(stream), iotest.ErrReader(broken)))
		require.Equal(t, []string{"<a/>"}, frames)
		require.ErrorIs(t, err, broken)
		frames, err = readFrames(t, iotest.DataErrReader(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(broken))))
		require.Equal(t, []string{"<a/>"}, frames)
		require.ErrorIs(t, err, broken)
	}
}

// nothing is a stream whose reads return no data and no error.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestStreamThatReturnsNothingIsGivenUp(t *testing.T) {
	_, err := readFrames(t, nothing{})
	require.ErrorIs(t, err, io.ErrNoProgress)
}

// pieces is a stream that returns one piece per read.
type pieces [][]byte

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; len((*p)[0]) == 0 {
		*p = (*p)[1:]
	}
	return n, nil
}

// TestReadsDoNotMatter: the sizes of the reads from a stream do not affect the frames or the error.
func TestReadsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{"4\n<a/>", "0\n", "\n", "\r\n", " ", "007\r\n1234567", "4\n", "\r", "9", "100\n" +
				hundred, "101\n", "x"}),
			rapid.StringMatching(`[0-9\r\n x]{0,6}`),
		)).Draw(t, "parts")
		stream := strings.Join(parts, "")
		want, wantErr := readFrames(t, strings.NewReader(stream))

		var cut pieces
		for rest := []byte(stream); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "read")
			cut = append(cut, rest[:n])
			rest = rest[n:]
		}
		for _, r := range []io.Reader{&cut, iotest.OneByteReader(strings.NewReader(stream)),
			iotest.DataErrReader(strings.NewReader(stream))} {
			frames, err := readFrames(t, r)
			require.Equal(t, want, frames)
			require.Equal(t, kind(wantErr), kind(err), "%v, then %v", wantErr, err)
		}
	})
}

// kind returns the kind of a FrameReader's error. It ignores the text of a *FrameError, because what that
// quotes depends on how much has arrived.
func kind(err error) string {
	var bad *FrameError
	if errors.As(err, &bad) {
		return "frame error"
	}
	return err.Error()
}

func TestBufferedTellsWhetherNextWouldRead(t *testing.T) {
	for stream, want := range map[string]bool{
		"":              false,
		"\n \r\n":       false,
		"\r":            false,
		"4":             false,
		"4\r":           false,
		"4\n<a/":        false,
		"4\n<a/>":       true,
		"\r\n 4\n<a/>4": true,
		"0\n":           true,
		"x":             true, // an error that is known without further bytes
		"101\n":         true,
	} {
		r := &pieces{[]byte("1\na" + stream), []byte("4\n<b/>")}
		f := NewFrameReader(r, testFrameMax)
		require.False(t, f.Buffered(), "nothing has been read")
		frame, err := f.Next()
		require.NoError(t, err)
		require.Equal(t, want, f.Buffered(), "%q", stream)
		require.Equal(t, want, f.Buffered(), "%q, asked again", stream)
		require.Equal(t, "a", string(frame), "the frame stays valid")
		_, _ = f.Next()
		require.Equal(t, !want, len(*r) == 0, "%q: whether Next has read", stream)
	}
}

func TestInFrameTellsAPartialFrameFromBlankLines(t *testing.T) {
	for stream, want := range map[string]bool{"": false, "\n\n": false, "  ": false, " \r\n ": false,
		"4": true, "\n 4": true, "4\n": true, "4\n<a/": true, "\r": true, "x": true} {
		r := &pieces{[]byte("1\na" + stream)}
		f := NewFrameReader(r, testFrameMax)
		require.False(t, f.InFrame())
		_, err := f.Next()
		require.NoError(t, err)
		require.Equal(t, want, f.InFrame(), "%q", stream)
	}
	f := NewFrameReader(&pieces{[]byte("4\n"), []byte("<a/>")}, testFrameMax)
	_, err := f.Next()
	require.NoError(t, err)
	require.False(t, f.InFrame(), "the frame is whole")
}

func TestMemoryFollowsWhatArrivesAndShrinksAgain(t *testing.T) {
	const limit = 5<<20 + 123
	large := strings.Repeat("y", limit)
	line := strconv.Itoa(limit) + "\n"
	stream := strings.Repeat(line+large, 3) + strings.Repeat("4\n<a/>", 40_000)
	f := NewFrameReader(strings.NewReader(stream), limit)
	require.LessOrEqual(t, len(f.buf), bufferKeep)
	frames, largest := 0, 0
	for {
		frame, err := f.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		frames++
		largest = max(largest, len(f.buf))
		require.Less(t, len(f.buf), 2*limit)
		require.True(t, len(frame) == limit || string(frame) == "<a/>")
	}
	require.Equal(t, 40_003, frames)
	require.Greater(t, largest, limit)
	require.LessOrEqual(t, len(f.buf), bufferKeep, "after small frames behind large ones")

	f = NewFrameReader(strings.NewReader(line+large[:100_000]), limit)
	_, err := f.Next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, len(f.buf), 300_000, "of a frame that only its length line promised")
}

func TestALargeFrameIsAdmittedOnceAndReleased(t *testing.T) {
	large := strings.Repeat("y", bufferKeep+1)
	line := strconv.Itoa(len(large)) + "\n"
	small := strconv.Itoa(bufferKeep-10) + "\n" + large[:bufferKeep-10]
	for name, split := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "bytes": iotest.OneByteReader,
	} {
		var asked []int
		f := NewFrameReader(split(strings.NewReader(small+line+large+small+line+large)), 1<<20)
		f.Admit = func(head []byte, bytes int) error {
			asked = append(asked, bytes)
			require.True(t, strings.HasPrefix(large, string(head)))
			require.Greater(t, len(head), bufferKeep/2)
			require.LessOrEqual(t, len(f.buf), bufferKeep, "asked before there is more")
			require.Greater(t, f.end, bufferKeep/2, "and only when much has arrived")
			return nil
		}
		for i, want := range []string{small, large, small, large} {
			frame, err := f.Next()
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(want, string(frame)), name)
			require.Len(t, asked, (i+1)/2)
			require.Equal(t, want == large, f.Release(), name)
			require.LessOrEqual(t, len(f.buf), bufferKeep)
			require.False(t, f.Release(), "released before")
		}
		require.Equal(t, []int{len(large), len(large)}, asked)
	}
}

func TestALargeFrameThatIsNotAdmittedEndsTheStream(t *testing.T) {
	full := errors.New("full")
	f := NewFrameReader(strings.NewReader("4\n<a/>1000000\n"+strings.Repeat("y", 1_000_000)), 1<<20)
	f.Admit = func([]byte, int) error { return full }
	frame, err := f.Next()
	require.NoError(t, err)
	require.Equal(t, "<a/>", string(frame))
	for range 2 {
		_, err = f.Next()
		require.ErrorIs(t, err, full)
	}
	require.LessOrEqual(t, len(f.buf), bufferKeep)
	require.False(t, f.Release())
}

func TestAppendFrameIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, testFrameMax)).Draw(t, "frames")
		var stream []byte
		var want []string
		for _, xml := range sent {
			stream = AppendFrame(stream, xml)
			want = append(want, string(xml))
		}
		frames, err := readFrames(t, bytes.NewReader(stream))
		require.Equal(t, io.EOF, err)
		require.Equal(t, want, frames)
	})
}

// FuzzFrames: the frames read from a stream do not depend on the sizes of its reads, and a frame from
// AppendFrame before the stream is read unchanged.
func FuzzFrames(f *testing.F) {
	for _, stream := range []string{"", "4\n<a/>", "\r\n 007\r\n1234567\n0\n", "4 \n", "101\n", "\r"} {
		f.Add([]byte(stream))
	}
	all, err := model.Transcripts()
	require.NoError(f, err)
	for _, transcript := range all {
		for _, step := range transcript.Steps {
			if step.Raw && len(step.Send) < 16<<10 {
				f.Add(step.Send)
			}
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		stream = append(AppendFrame(nil, []byte("<a/>")), stream...)
		want, wantErr := readFrames(t, bytes.NewReader(stream))
		require.Equal(t, "<a/>", want[0])
		frames, err := readFrames(t, iotest.OneByteReader(bytes.NewReader(stream)))
		require.Equal(t, want, frames)
		require.Equal(t, kind(wantErr), kind(err))
		for _, frame := range frames {
			require.LessOrEqual(t, len(frame), testFrameMax)
		}
	})
}
