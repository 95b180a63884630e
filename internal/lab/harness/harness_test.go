package harness

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOverlayEditsACopy(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(root, "a.go")
	require.NoError(t, os.WriteFile(file, []byte("one two two three"), 0o600))
	overlay, err := Overlay(root, dir, []Edit{{File: "a.go", Old: "one", New: "1"},
		{File: "a.go", Old: "three", New: "3"}})
	require.NoError(t, err)
	b, err := os.ReadFile(overlay)
	require.NoError(t, err)
	var replace struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(b, &replace))
	edited, err := os.ReadFile(replace.Replace[file])
	require.NoError(t, err)
	require.Equal(t, "1 two two 3", string(edited))
	untouched, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "one two two three", string(untouched))

	_, err = Overlay(root, dir, []Edit{{File: "a.go", Old: "two", New: "2"}})
	require.ErrorContains(t, err, `"two" occurs 2 times, not once`)
	_, err = Overlay(root, dir, []Edit{{File: "a.go", Old: "four", New: "4"}})
	require.ErrorContains(t, err, "0 times")
	_, err = Overlay(root, dir, []Edit{{File: "b.go", Old: "one", New: "1"}})
	require.ErrorContains(t, err, "b.go")
}

// An edit is found after its code has moved to another file of the package or to another indentation.
func TestOverlayFindsThePlaceInAFolder(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"a.go": "package p\n\nvar x = 1\n",
		"b.go":      "package p\n\nvar y = f(1,\n\t\t2)\n",
		"b_test.go": "package p\n\nvar z = f(1, 2)\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	texts := map[string]string{}
	e := Edit{File: ".", Old: "  f(1, 2)\n", New: "g(3)", Imports: []string{"os", "time"}}
	require.NoError(t, e.apply(root, texts))
	e.Old, e.New = "var y =", "var w ="
	require.NoError(t, e.apply(root, texts))
	want := "package p\n\nimport \"time\"\n\n\nimport \"os\"\n\n\nvar w = g(3)\n"
	require.Equal(t, map[string]string{filepath.Join(root, "b.go"): want}, texts)
	_, err := Overlay(root, dir, []Edit{{File: ".", Old: "package p"}})
	require.ErrorContains(t, err, "2 times")
	_, err = Overlay(root, dir, []Edit{{File: "c", Old: "package p"}})
	require.ErrorContains(t, err, "edit c: \"package p\" occurs 0 times")
}

func TestLogTailSeesReadyAcrossWrites(t *testing.T) {
	var xml, http string
	l := &logTail{onReady: func(x, h string) { xml, http = x, h }}
	for _, part := range []string{"not json\n{\"msg\":\"re", "ady\",\"xml\":\"1:2\",\"http\":\"1:3\"}\n",
		`{"msg":"ready","xml":"other"}` + "\n", `{"error":"why"}` + "\nhalf"} {
		_, err := io.WriteString(l, part)
		require.NoError(t, err)
	}
	require.Equal(t, "1:2", xml)
	require.Equal(t, "1:3", http)
	why, ok := l.attr("error")
	require.True(t, ok)
	require.Equal(t, "why", why)
	_, ok = l.attr("nothing")
	require.False(t, ok)
	require.Contains(t, l.String(), "half")
	for range 2 * logLines {
		_, err := io.WriteString(l, "line\n")
		require.NoError(t, err)
	}
	require.NotContains(t, l.String(), "why")
}

func TestProxyCarriesCutsAndDelays(t *testing.T) {
	dir := t.TempDir()
	upstream, err := net.Listen("unix", filepath.Join(dir, "up"))
	require.NoError(t, err)
	defer upstream.Close()
	ended := make(chan struct{}, 2) // a value for each connection that Postgres sees end
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				ended <- struct{}{}
			}()
		}
	}()
	front, err := net.Listen("unix", filepath.Join(dir, "front"))
	require.NoError(t, err)
	p := &proxy{listener: front, dir: filepath.Join(dir, "none"), upstream: filepath.Join(dir, "up"),
		open: map[net.Conn]bool{}, keep: map[net.Conn]bool{}}
	go p.serve()
	defer p.close()
	dial := func() net.Conn {
		c, err := net.Dial("unix", filepath.Join(dir, "front"))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c
	}
	echo := func(c net.Conn) string {
		_, err := io.WriteString(c, "hello")
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		return string(b)
	}
	c := dial()
	require.Equal(t, "hello", echo(c))
	p.cut()
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	<-ended
	c = dial()
	require.Equal(t, "hello", echo(c))
	p.lose()
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	c = dial()
	require.Equal(t, "hello", echo(c), "a later connection is another one")
	require.Empty(t, ended, "what is lost stays open on the other side")
	p.find()
	<-ended
	p.delay.Store(int64(20 * time.Millisecond))
	begun := time.Now()
	require.Equal(t, "hello", echo(c))
	require.GreaterOrEqual(t, time.Since(begun), 40*time.Millisecond, "each way takes its time")
}

func TestRootIsTheRepository(t *testing.T) {
	root, err := Root(context.Background())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	require.NotEmpty(t, Revision(context.Background(), root))
}
