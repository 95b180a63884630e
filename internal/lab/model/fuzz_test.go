package model

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzDo checks that for any frame the reply is a document with one <results>, that no cash or shares are
// lost, and that two equal exchanges give equal replies.
func FuzzDo(f *testing.F) {
	all, err := Transcripts()
	require.NoError(f, err)
	for _, transcript := range all {
		for _, step := range transcript.Steps {
			if !step.Raw && len(step.Send) < 4<<10 { // larger ones slow the fuzzer down
				f.Add(step.Send)
			}
		}
	}
	setup := []byte(`<create><account id="1" balance="1000"/><account id="2" balance="1000"/><symbol sym="A">` +
		`<account id="1">100</account></symbol></create>`)
	f.Fuzz(func(t *testing.T, doc []byte) {
		x, y := New(), New()
		x.Do(setup, 1)
		y.Do(setup, 1)
		reply := x.Do(doc, 2)
		require.Equal(t, string(y.Do(doc, 2)), string(reply))
		require.NoError(t, x.Check())
		d := xml.NewDecoder(strings.NewReader(string(reply)))
		token, err := d.Token()
		require.NoError(t, err)
		require.Equal(t, "results", token.(xml.StartElement).Name.Local)
		for err == nil {
			_, err = d.Token()
		}
		require.True(t, errors.Is(err, io.EOF), "%v: %s", err, reply)
	})
}
