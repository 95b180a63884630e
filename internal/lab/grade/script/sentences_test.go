package script_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"outcry/internal/lab/grade/script"
)

// sentence is a sentence of part one of docs/PROTOCOL.md, with the cases that test it, or the reason why none tests it.
type sentence struct {
	text      string
	cases     []string
	unchecked string
}

func TestEverySentenceHasACase(t *testing.T) {
	protocol, err := os.ReadFile("../../../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("sentences.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := script.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	listed := sentencesListed(string(text))
	for _, s := range sentencesOf(string(protocol)) {
		if !slices.ContainsFunc(listed, func(l sentence) bool { return l.text == s }) {
			t.Errorf("no case, and no reason for none: sentences.txt does not have this sentence of PROTOCOL.md: %q", s)
		}
	}
	tried := map[string]bool{}
	for _, l := range listed {
		if !slices.Contains(sentencesOf(string(protocol)), l.text) {
			t.Errorf("sentences.txt has a sentence that PROTOCOL.md does not have: %q", l.text)
		}
		if (len(l.cases) == 0) == (l.unchecked == "") {
			t.Errorf("a sentence has either cases or a reason for none: %q", l.text)
		}
		for _, name := range l.cases {
			tried[name] = true
			if !slices.ContainsFunc(all, func(c *script.Case) bool { return c.Name == name }) {
				t.Errorf("there is no case %s, of %q", name, l.text)
			}
		}
	}
	for _, c := range all {
		if !tried[c.Name] && c.Group != "load" {
			t.Errorf("%s tries no sentence of PROTOCOL.md: sentences.txt does not name it", c.Name)
		}
	}
}

func TestSentencesAreReadFromTheDocument(t *testing.T) {
	const document = "# P\n\nOne goes on\nhere. **Two.** is `a. b` at\nonce.\n\n    code. Not read.\n\n" +
		"- a row. Its second\n  sentence\n- another\n\n# Part two\n\nNot read.\n"
	want := []string{"One goes on here.", "**Two.** is `a. b` at once.", "a row.", "Its second sentence", "another"}
	if got := sentencesOf(document); !slices.Equal(got, want) {
		t.Errorf("the sentences are %q, not %q", got, want)
	}
}

func TestEveryRuleIsASectionOfTheProtocol(t *testing.T) {
	protocol, err := os.ReadFile("../../../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := script.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		heading, _, _ := strings.Cut(c.Rule, ", ")
		if !strings.Contains(string(protocol), "\n## "+heading+"\n") {
			t.Errorf("%s: PROTOCOL.md has no heading %q", c.Name, heading)
		}
	}
}

// sentencesOf returns the sentences and list items before part two of a Markdown document, without
// headings and blocks of code.
func sentencesOf(document string) []string {
	document, _, _ = strings.Cut(document, "\n# Part two")
	var paragraphs []string
	within := false
	for line := range strings.Lines(document) {
		text := strings.TrimSpace(line)
		switch row, isRow := strings.CutPrefix(text, "- "); {
		case text == "" || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "#"):
			within = false
		case within && !isRow:
			paragraphs[len(paragraphs)-1] += " " + text
		default:
			paragraphs = append(paragraphs, row)
			within = true
		}
	}
	var all []string
	for _, p := range paragraphs {
		all = append(all, split(p)...)
	}
	return all
}

// split splits a paragraph into sentences: each ends with a full stop before a blank, outside of code.
func split(paragraph string) (all []string) {
	code, from := false, 0
	for i := range len(paragraph) {
		switch {
		case paragraph[i] == '`':
			code = !code
		case !code && strings.HasPrefix(paragraph[i:], ". "):
			all = append(all, paragraph[from:i+1])
			from = i + 2
		}
	}
	return append(all, paragraph[from:])
}

// sentencesListed reads sentences.txt: sentences, and behind each one in lines that begin with blanks
// the names of its cases, or "unchecked:" and why there is none.
func sentencesListed(text string) (all []sentence) {
	for line := range strings.Lines(text) {
		words := strings.TrimSpace(line)
		switch {
		case words == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " ") || len(all) == 0:
			all = append(all, sentence{text: words})
		default:
			last := &all[len(all)-1]
			if why, ok := strings.CutPrefix(words, "unchecked:"); ok {
				last.unchecked = strings.TrimSpace(why)
			} else {
				last.cases = append(last.cases, strings.Fields(words)...)
			}
		}
	}
	return all
}
