package dialect

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var documents = []string{
	ok, "<results/>", "29\n" + ok, "29\r\n" + ok + "\x00", "40\n" + ok + "29\n" + ok, "<a b='1' b='2'/>",
	"<a><b></a></b>", "12", "<a", "hello\n<a/>", "-1\n<a/>", "\ufeff<a/>",
	`<?xml version="1.0" encoding="UTF-8"?><results><error sym="&lt;&#65;">x &amp; y<![CDATA[<]]></error></results>`,
	`<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`, "<!-- x --><a:b xmlns:a='c'/>", strings.Repeat("<a>", 33),
	`<transactions id="1"><query id="1"/></transactions>`, "<transactions\n x='id=\"' id = '1'/>",
}

// write writes an element as XML.
func write(to *strings.Builder, e *Element) {
	escaped := func(s string) {
		if err := xml.EscapeText(to, []byte(s)); err != nil {
			panic(err)
		}
	}
	to.WriteString("<" + e.Name)
	for _, a := range e.Attrs {
		to.WriteString(" " + a.Name + `="`)
		escaped(a.Value)
		to.WriteString(`"`)
	}
	to.WriteString(">")
	escaped(e.Text)
	for _, child := range e.Children {
		write(to, child)
	}
	to.WriteString("</" + e.Name + ">")
}

// FuzzParseDoc compares the parser with encoding/xml, and with itself after writing the result as XML.
func FuzzParseDoc(f *testing.F) {
	for _, d := range documents {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		root, err := ParseDoc(doc)
		if err != nil {
			var b *Broken
			require.ErrorAs(t, err, &b)
			require.Contains(t, []Kind{NotXML, TooLarge}, b.Kind)
			return
		}
		d := xml.NewDecoder(strings.NewReader(doc))
		d.CharsetReader = asIs
		for err == nil {
			_, err = d.Token()
		}
		require.Equal(t, io.EOF, err, "the library does not take it")
		var out strings.Builder
		write(&out, root)
		again, err := ParseDoc(out.String())
		if len(out.String()) < TokenBytesMax/8 { // escaped texts are longer
			require.NoError(t, err, out.String())
			require.Equal(t, root, again)
		}
	})
}

// FuzzReading reads replies from arbitrary bytes, until they end.
func FuzzReading(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
		f.Add([]byte(d + "\n" + d))
		f.Add([]byte("<results>" + strings.Repeat(d, ExcerptMax/len(d))))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		for _, habits := range []Habits{{}, {Bare: true}, {WrongLength: true}} {
			in := &inbox{data: bytes.Clone(sent), err: io.EOF, room: make(chan struct{}, 1)}
			var chunk []byte
			for range len(sent) + 1 {
				left := len(in.data) + len(chunk)
				r := reading{ctx: t.Context(), in: in, chunk: &chunk, habits: habits, faults: map[Form]string{}}
				root, declared, err := r.reply()
				require.LessOrEqual(t, len(r.raw), ExcerptMax+1)
				if err != nil {
					var b *Broken
					require.True(t, errors.As(err, &b))
					require.NotEqual(t, TimedOut, b.Kind)
					require.LessOrEqual(t, len(b.Got), ExcerptMax)
					break
				}
				require.NotEmpty(t, root.Name)
				require.GreaterOrEqual(t, declared, int64(NoLength))
				require.Less(t, len(in.data)+len(chunk), left, "a reply has bytes")
			}
		}
	})
}

// FuzzWithAccount checks that withAccount renames only an attribute of the root.
func FuzzWithAccount(f *testing.F) {
	for _, d := range documents {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		before, err := ParseDoc(doc)
		if err != nil {
			withAccount(doc)
			return
		}
		after, err := ParseDoc(withAccount(doc))
		if _, has := before.Attr("account"); has {
			return // the root now has the attribute account twice
		}
		require.NoError(t, err)
		for i, a := range before.Attrs {
			if a.Name == "id" && before.Name == "transactions" {
				before.Attrs[i].Name = "account"
			}
		}
		require.Equal(t, before, after)
	})
}
