package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
	"outcry/internal/testing/budget"
)

// requireReply holds a reply to what every reply is: a document whose root is
// <results>, which ParseReply takes, and whose errors say something in one line.
func requireReply(t require.TestingT, reply string) {
	d := xml.NewDecoder(strings.NewReader(reply))
	token, err := d.Token()
	require.NoError(t, err)
	require.Equal(t, "results", token.(xml.StartElement).Name.Local)
	for err == nil {
		_, err = d.Token()
	}
	require.True(t, errors.Is(err, io.EOF), "%v: %.500s", err, reply)
	answers, err := ParseReply([]byte(reply))
	require.NoError(t, err)
	require.Regexp(t, strictReply, reply)
	for _, a := range answers {
		require.Equal(t, a.Kind == "error", a.Error != "", "%v", a)
		require.NotContains(t, a.Error, "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(a.Error), errorBytesMax+1)
	}
}

func transcripts(t require.TestingT) []model.Transcript {
	all, err := model.Transcripts()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// frameBytesMax is the limit of a server that is not told another.
const frameBytesMax = 4 << 20

func TestTranscripts(t *testing.T) {
	for _, transcript := range transcripts(t) {
		t.Run(transcript.Name, func(t *testing.T) {
			m := newMarket()
			for i, step := range transcript.Steps {
				var reply string
				if step.Raw {
					reply = m.answerStream(t, step.Send)
				} else {
					reply = m.answer(step.Send)
					requireReply(t, reply)
				}
				require.Equal(t, step.Want, model.Normalize([]byte(reply)), "step %d", i+1)
			}
		})
	}
}

// answerStream answers the frames of a stream, as a server does.
func (m *market) answerStream(t *testing.T, stream []byte) (replies string) {
	f := NewFrameReader(bytes.NewReader(stream), frameBytesMax)
	for {
		frame, err := f.Next()
		var bad *FrameError
		if errors.As(err, &bad) {
			return replies + string(AppendError(nil, bad.Text))
		}
		if err != nil {
			require.ErrorContains(t, err, "EOF")
			return replies
		}
		replies += m.answer(frame)
	}
}

func TestRandomSessionsAgreeWithTheModel(t *testing.T) {
	for seed := range uint64(10) {
		t.Logf("seed %d", seed)
		g, m, other := model.NewGenerator(seed, 3, 10), newMarket(), model.New()
		if seed >= 5 {
			g.Instruct()
		}
		for range budget.Of(400) {
			frame := g.Frame()
			reply := m.answer(frame)
			requireReply(t, reply)
			require.Equal(t, model.Normalize(other.Do(frame, m.now)), model.Normalize([]byte(reply)), "%s", frame)
			g.Observe([]byte(reply))
		}
		require.NoError(t, m.state.Audit())
	}
}

// setup gives the frames of a fuzz run somebody to be about.
const setup = `<create><account id="1" balance="1000"/><account id="2" balance="1000"/><symbol sym="A">` +
	`<account id="1">100</account></symbol></create>`

// FuzzDecode: whatever a frame holds, it gets a reply, and the same one that an
// independent implementation of the protocol gives.
func FuzzDecode(f *testing.F) {
	for _, transcript := range transcripts(f) {
		for _, step := range transcript.Steps {
			if !step.Raw && len(step.Send) < 4<<10 { // larger ones hold the fuzzer up
				f.Add(step.Send)
			}
		}
	}
	for _, document := range append(wellFormed, malformed...) {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, other := newMarket(), model.New()
		require.Equal(t, model.Normalize(other.Do([]byte(setup), m.now)), model.Normalize([]byte(m.answer([]byte(setup)))))
		reply := m.answer(frame)
		requireReply(t, reply)
		require.NoError(t, m.state.Audit())
		if strings.HasPrefix(reply, "<results><error>malformed XML: ") && strings.Contains(reply, "more than") {
			return // a limit on documents, which the model has not
		}
		require.Equal(t, model.Normalize(other.Do(frame, m.now)), model.Normalize([]byte(reply)))
	})
}
