package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// wellFormed lists documents that XML 1.0 and the protocol accept.
var wellFormed = []string{
	`<a/>`,
	`<a></a>`,
	"\ufeff<a/>",
	`<?xml version="1.0"?><a/>`,
	`<?xml version='1.0' encoding='utf-8' standalone='no'?><a/>`,
	"<?xml version = \"1.0\"\n encoding\t=\t\"UTF-8\" ?>\n<a/>\n",
	"\ufeff<?xml version=\"1.0\" encoding=\"Us-Ascii\"?><a/>",
	`<?xml version="1.0" standalone="yes"?><a/>`,
	`<?pi any thing?><!-- c --><a/><!-- c --><?pi?>`,
	`<?xml-stylesheet href="x"?><a/>`,
	"\n\t <a\r\n/> \t\n",
	`<a b="1" c='2'/>`,
	`<a b="&lt;&amp;&gt;&quot;&apos;&#65;&#x42;"/>`,
	`<a><b/>text<b>text</b><![CDATA[<b>]]></a>`,
	`<a:b c:d="1" d="2"/>`,
	`<a b="&amp;#xD800;">&#xD7FF;&#xE000;<![CDATA[&#xD800;]]><!-- &#xD800; --><?b &#xD800;?></a>`,
	`<é è="ü">ñ</é>`,
	strings.Repeat("<a>", depthMax) + strings.Repeat("</a>", depthMax),
	`<a` + attributes(attributesMax) + `/>`,
}

// malformed lists documents that parseDocument must refuse.
var malformed = []string{
	``, ` `, "\ufeff", `text`, `<!-- c -->`, `<?xml version="1.0"?>`,
	`<a>`, `<a`, `</a>`, `<a></b>`, `<a><b></a></b>`, `<a/></a>`, `<a/><a/>`, `<a/>text`, `text<a/>`, `<a/><![CDATA[x]]>`,
	`<a b=1/>`, `<a b/>`, `<a b="1/>`, `<a b="<"/>`, `<a b="1" b="2"/>`, `<a x:b="1" x:b="1"/>`, `<a b="1" c="2" b="1"/>`,
	`<a:b></a:c>`, `<a:b></b>`, `< a/>`, `<1/>`, `<a><</a>`, `<a>]]></a>`, `<!-- a -- b --><a/>`, `<a><!-- </a>`,
	`<a><![CDATA[</a>`,
	`<a>&b;</a>`, `<a>&</a>`, `<a>& b</a>`, `<a b="&c;"/>`, `<a>&#0;</a>`, `<a>&#xFFFE;</a>`, `<a b="&#8;"/>`,
	`<a>&#x110000;</a>`, `<a>&#xD800;</a>`, `<a b="1&#57343;"/>`, `<a b='&#38;&#x0dBff;'/>`,
	`<create>&#xd801;&#xDC00;</create>`, "<a>\x01</a>", "<a>\ufffe</a>",
	"<a>\xff</a>", "<a b=\"\xc3\"/>", "<a><!-- \xff --></a>", "\xff\xfe<a/>",
	`<!DOCTYPE a><a/>`, `<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`, `<a/><!DOCTYPE a>`, `<a><!ELEMENT b></a>`,
	` <?xml version="1.0"?><a/>`, "\n<?xml version=\"1.0\"?><a/>", `<!-- c --><?xml version="1.0"?><a/>`,
	`<a><?xml version="1.0"?></a>`, `<a/><?xml version="1.0"?>`,
	`<?xml version="1.0"?><?xml version="1.0"?><a/>`, `<?XML version="1.0"?><a/>`, `<?Xml version="1.0"?><a/>`,
	`<?xml?><a/>`, `<?xml version="1.1"?><a/>`, `<?xml version="2"?><a/>`, `<?xml encoding="UTF-8"?><a/>`,
	`<?xml version=1.0?><a/>`, `<?xml version="1.0'?><a/>`, `<?xml version?><a/>`, `<?xml version=?><a/>`,
	`<?xml version="1.0" encoding="ISO-8859-1"?><a/>`, `<?xml version="1.0" encoding="utf8"?><a/>`,
	`<?xml version="1.0" encoding=""?><a/>`, `<?xml version="1.0" encoding="UTF-16"?><a/>`,
	`<?xml version="1.0"encoding="UTF-8"?><a/>`, `<?xml version="1.0" encoding="UTF-8"standalone="no"?><a/>`,
	`<?xml version="1.0" standalone="no" encoding="UTF-8"?><a/>`,
	`<?xml version="1.0" standalone="maybe"?><a/>`, `<?xml version="1.0" standalone=""?><a/>`,
	`<?xml version="1.0" more="1"?><a/>`, `<?xml version="1.0" more?><a/>`, `<?xml version="1.0" version="1.0"?><a/>`,
	`<?xml version="1.0" encoding="US-ASCII"?><a>é</a>`, `<?xml version="1.0" encoding="us-ascii"?><!-- é --><a/>`,
	strings.Repeat("<a>", depthMax+1) + strings.Repeat("</a>", depthMax+1),
	`<a` + attributes(attributesMax+1) + `/>`,
}

func attributes(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(" a" + strconv.Itoa(i) + `="1"`)
	}
	return all.String()
}

func TestWellFormedDocumentsAreRead(t *testing.T) {
	for _, document := range wellFormed {
		_, err := parseDocument([]byte(document), ElementsMax)
		require.NoError(t, err, "%s", document)
	}
}

func TestMalformedDocumentsAreRefused(t *testing.T) {
	for _, document := range malformed {
		_, err := parseDocument([]byte(document), ElementsMax)
		require.Error(t, err, "%s", document)
		reply := newMarket().answer([]byte(document))
		require.Contains(t, reply, "<results><error>malformed XML: ", "%s", document)
		requireReply(t, reply)
	}
}

func TestWhatIsWrongWithADocumentIsSaid(t *testing.T) {
	for document, text := range map[string]string{
		``:                                "malformed XML: the document is empty",
		`<a>`:                             "malformed XML: the document ends after 3 bytes, and <a> is not closed",
		`<a></b>`:                         "malformed XML: <a> is closed by </b>",
		`</a>`:                            "malformed XML: </a> closes nothing",
		`<a/><b/>`:                        "malformed XML: there is more than one root element",
		`<a/>b`:                           "malformed XML: there is text outside of the root element",
		`<a b="1" b="2"/>`:                "malformed XML: attribute b is given twice",
		"<a>\xff</a>":                     "malformed XML: the document is not UTF-8",
		"<a>\n\n<</a>":                    "malformed XML: line 3: expected element name after <",
		`<!DOCTYPE a><a/>`:                "malformed XML: document type declarations are not allowed",
		`<?xml version="1.1"?><a/>`:       `malformed XML: xml: unsupported version "1.1"; only version 1.0 is supported`,
		`<?xml?><a/>`:                     "malformed XML: the XML declaration does not say version 1.0",
		` <?xml version="1.0"?><a/>`:      "malformed XML: an XML declaration is allowed only at the start of a document",
		`<?xml version="1.0" x="1"?><a/>`: `malformed XML: the XML declaration "version=\"1.0\" x=\"1\"" is malformed`,
		`<?xml version="1.0" encoding="latin1"?><a/>`: `malformed XML: encoding ` +
			`"latin1" is not UTF-8`,
		`<?xml version="1.0" encoding="us-ascii"?><a>é</a>`: "malformed XML: the document " +
			"is declared US-ASCII and is not",
		strings.Repeat("<a>", 1<<20): "malformed XML: elements are " +
			"nested more than 16 deep",
		`<a` + attributes(100_000) + `/>`: "malformed XML: an element has " +
			"more than 32 attributes",
		`<create>` + strings.Repeat(`<b/>`, ElementsMax) +
			`</create>`: "malformed XML: there are more than 100000 elements in a frame",
		`<` + strings.Repeat("n", 1<<20) + `/>`: "unknown root element <" +
			strings.Repeat("n", 64) + "…>, only <create> and <transactions> are known",
		`<` + strings.Repeat("é", 1<<20) + `>`: "malformed XML: the document ends after 2097154 bytes, and <" +
			strings.Repeat("é", 32) + "…> is not closed",
		`<?xml version="1.0" encoding="` + strings.Repeat("x", 1<<20) + `"?><create/>`: `malformed XML: encoding "` +
			strings.Repeat("x", 64) + `…" is not UTF-8`,
	} {
		answers, err := ParseReply([]byte(newMarket().answer([]byte(document))))
		require.NoError(t, err)
		require.Equal(t, []Answer{{Kind: "error", Error: text}}, answers, "%.50s", document)
	}
}

// TestADocumentCutShortIsCalledSo cuts a document after each of its bytes, as if its length line were too small.
// The error must name the number of bytes and the innermost open element.
func TestADocumentCutShortIsCalledSo(t *testing.T) {
	const whole = "\ufeff<?xml version='1.0'?>\n<transactions id='1'><!-- é --><order a='&lt;'/><a>t&gt;" +
		"<![CDATA[]]></a></transactions><!-- end -->"
	for n := 1; n < len(whole); n++ {
		cut := whole[:n]
		var want string
		switch begun := strings.Index(whole, "<transactions") + len("<transactions id='1'>"); {
		case !utf8.ValidString(cut):
			want = "the document is not UTF-8"
		case cut == "\ufeff", strings.HasSuffix(cut, "?>"), strings.HasSuffix(cut, "?>\n"):
			want = "the document is empty"
		case strings.HasSuffix(cut, "</transactions>"):
			continue // the document is complete here
		case n < begun || n > strings.LastIndex(whole, "<!--"):
			want = fmt.Sprintf("the document ends after %d bytes, within a tag or a comment", n)
		case n >= strings.Index(whole, "<a>")+len("<a>") && n < strings.Index(whole, "</a>")+len("</a>"):
			want = fmt.Sprintf("the document ends after %d bytes, and <a> is not closed", n)
		default:
			want = fmt.Sprintf("the document ends after %d bytes, and <transactions> is not closed", n)
		}
		answers, err := ParseReply([]byte(newMarket().answer([]byte(cut))))
		require.NoError(t, err)
		require.Equal(t, []Answer{{Kind: "error", Error: "malformed XML: " + want}}, answers, "%q", cut)
	}
}

func TestDocumentIsReadAsItIs(t *testing.T) {
	root, err := parseDocument([]byte(`<a:b c="1&#9;&lt;" x:c="2">t<!-- no -->e<d e=' f '>in</d><?no?>`+
		`<![CDATA[<x&]]>t</a:b>`), math.MaxInt)
	require.NoError(t, err)
	require.Equal(t, "a:b", root.name)
	require.Equal(t, "te<x&t", string(root.text))
	c, ok := root.attr("c")
	require.True(t, ok)
	require.Equal(t, "1\t<", c)
	_, ok = root.attr("d")
	require.False(t, ok)
	require.Equal(t, "x:c", rawName(root.attrs[1].Name))
	require.Len(t, root.children, 1)
	require.Equal(t, "d", root.children[0].name)
	require.Equal(t, " f ", root.children[0].attrs[0].Value)
	require.Equal(t, "in", string(root.children[0].text))
}

func TestAsManyElementsAsTheLimitAreTaken(t *testing.T) {
	r := new(Request)
	r.Decode([]byte(`<transactions id="1">`+strings.Repeat(`<query id="1"/>`, ElementsMax-1)+`</transactions>`), nil)
	require.Len(t, r.Commands, ElementsMax-1)
}
