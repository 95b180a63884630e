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

// requireReply checks the properties of every reply: it is a document with the root <results>, ParseReply
// accepts it, and each error has a text of one line.
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

// frameBytesMax is the default limit of a server.
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

// answerStream answers all frames of a stream as a server does and returns the replies.
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

// setup is a frame that creates accounts and a symbol for the frames of a fuzz run.
const setup = `<create><account id="1" balance="1000"/><account id="2" balance="1000"/><symbol sym="A">` +
	`<account id="1">100</account></symbol></create>`

// FuzzDecode: every frame gets a reply, and it is the reply of the model, an independent implementation of
// the protocol.
func FuzzDecode(f *testing.F) {
	for _, transcript := range transcripts(f) {
		for _, step := range transcript.Steps {
			if !step.Raw && len(step.Send) < 4<<10 { // larger ones slow the fuzzer down
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
			return // the model does not have this limit on documents
		}
		require.Equal(t, model.Normalize(other.Do(frame, m.now)), model.Normalize([]byte(reply)))
	})
}
