package model

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

func TestTranscriptIsReadInSteps(t *testing.T) {
	got, err := steps(txtar.Parse([]byte(`A story.
-- send --
<create>{{<account id="%d"/>*2}}</create>
-- want --
<results>
{{<error id="%d">*</error>*2}}</results>
-- raw --
"9\n<create/>"
"{{1*3}}\xff"
-- want --
"<results/>"
"{{a*2}}"
`)))
	require.NoError(t, err)
	require.Equal(t, []Step{
		{Send: []byte(`<create><account id="1"/><account id="2"/></create>`),
			Want: `<results><error id="1">*</error><error id="2">*</error></results>`},
		{Send: []byte("9\n<create/>111\xff"), Want: "<results/>aa", Raw: true},
	}, got)
}

func TestTranscriptThatIsNoneIsRefused(t *testing.T) {
	for archive, want := range map[string]string{
		"":                                          "0 sections",
		"Only a story.\n":                           "0 sections",
		"-- send --\n-- want --\n":                  "a story of 0 bytes",
		"S\n-- send --\n":                           "1 sections",
		"S\n-- want --\n-- send --\n":               `section 0: "want", then "send"`,
		"S\n-- send --\n-- send --\n":               `section 0: "send", then "send"`,
		"S\n-- send --\n{{a*b}}\n-- want --\n":      "section 0: {{a*b is not",
		"S\n-- send --\n{{a*-1}}\n-- want --\n":     "section 0: {{a*-1 is not",
		"S\n-- send --\n{{ab}}\n-- want --\n":       "section 0: {{ab is not",
		"S\n-- send --\n-- want --\n{{a*2\n":        "section 0: {{a*2 is not",
		"S\n-- raw --\nunquoted\n-- want --\n":      "section 0: unquoted is not a Go string",
		"S\n-- raw --\n\"a\"\n-- want --\n\"{{\"\n": "section 0: {{ is not",
		"S\n-- raw --\n\"a\"\n-- want --\n\n-- send --\n-- want --\n":      "section 0:",
		"S\n-- raw --\n\"a\"\n-- want --\n\"a\"\n-- send --\n-- want --\n": "section 0 is raw and not the last step",
	} {
		_, err := steps(txtar.Parse([]byte(archive)))
		require.ErrorContains(t, err, want, archive)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestTranscriptsCoverEveryKindOfAnswer checks that the transcripts contain every kind of reply element
// of the protocol.
func TestTranscriptsCoverEveryKindOfAnswer(t *testing.T) {
	all, err := Transcripts()
	require.NoError(t, err)
	var wants strings.Builder
	names := map[string]bool{}
	for _, transcript := range all {
		require.False(t, names[transcript.Name], transcript.Name)
		names[transcript.Name] = true
		for _, step := range transcript.Steps {
			require.Regexp(t, `^(<results(/>|>.*</results>))+$`, step.Want, transcript.Name)
			wants.WriteString(step.Want)
		}
	}
	for _, part := range []string{`<results/>`, `<created id="`, `<created sym="SPY"/>`, `<created sym="SPY" id="`,
		`<opened sym="`, `<open shares="`,
		`<status id="`, `<canceled id="`, `<canceled shares="`, `<executed shares="`, `<error>*`, `<error id="`,
		`<error sym="A" id="`, `<error sym="A" amount="`} {
		require.Contains(t, wants.String(), part)
	}
}
