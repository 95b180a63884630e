package dialect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADocumentIsReadAsItWasSent(t *testing.T) {
	const doc = "\ufeff<?xml version='1.0' encoding='US-ASCII'?>\n<!-- a --><results x:b='1' B=\"&lt;&#65;\">\n" +
		"  <error sym=''>\n a &amp; <![CDATA[<b>]]> <i/> c \n</error >\n  <x:created\n/>\n</results>\n"
	root, err := ParseDoc(doc)
	require.NoError(t, err)
	require.Equal(t, &Element{Name: "results", Attrs: []Attr{{"x:b", "1"}, {"B", "<A"}}, Children: []*Element{
		{Name: "error", Attrs: []Attr{{"sym", ""}}, Text: "a & <b>  c", Children: []*Element{{Name: "i"}}},
		{Name: "x:created"},
	}}, root)
}

func TestADocumentEndsWithItsRoot(t *testing.T) {
	for doc, want := range map[string]string{
		"":                 "it ends in the middle",
		"\n":               "it ends in the middle",
		"<results>":        "it ends in the middle",
		"<results/><b/>":   `"<b/>" after the end of the document`,
		"<results/>text":   `"text" after the end of the document`,
		"text<results/>":   `text outside of the root: "text"`,
		"<a></b>":          "<a> ends with </b>",
		"<a b='1' b='2'/>": "<a> has attribute b twice",
	} {
		_, err := ParseDoc(doc)
		require.Equal(t, excerpt(doc), kind(t, err, NotXML).Got)
		require.EqualError(t, err, "the server sent a reply that is not well-formed XML: "+want)
	}
}
