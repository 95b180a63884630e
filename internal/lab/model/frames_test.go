package model

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// frameMax is the default limit of a frame.
const frameMax = 4 << 20

var (
	lengthLine = regexp.MustCompile(`^(?: *\r?\n)* *([0-9]+)\r?\n`)
	cutOff     = regexp.MustCompile(`^(?: *\r?\n)* *[0-9]{0,1000}\r?$`) // the start of a possibly valid length line
)

// answerStream answers all frames of a stream, as specified in section 1, until it ends or is malformed.
func answerStream(x *Exchange, stream string) (replies string) {
	for {
		line := lengthLine.FindStringSubmatch(stream)
		if line == nil {
			if !cutOff.MatchString(stream) {
				replies += "<results><error>no length</error></results>"
			}
			return replies
		}
		length, err := strconv.Atoi(line[1])
		if err != nil || length > frameMax {
			return replies + "<results><error>too large</error></results>"
		}
		stream = stream[len(line[0]):]
		if len(stream) < length {
			return replies
		}
		replies += string(x.Do([]byte(stream[:length]), 1))
		stream = stream[length:]
	}
}

func TestRawTranscriptsHoldForTheModel(t *testing.T) {
	all, err := Transcripts()
	require.NoError(t, err)
	steps := 0
	for _, transcript := range all {
		for _, step := range transcript.Steps {
			if step.Raw {
				steps++
				require.Equal(t, step.Want, Normalize([]byte(answerStream(New(), string(step.Send)))), transcript.Name)
			}
		}
	}
	require.Greater(t, steps, 15)
}
