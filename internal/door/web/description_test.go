package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"outcry/docs"
	"outcry/internal/door/jsontext"
)

var update = flag.Bool("update", false, "write page/openapi.json from docs/openapi.yaml")

// TestReferenceOfTheAPIForBrowsers checks that the copy for browsers says the same as docs/openapi.yaml, in the same
// order. `make reference` writes the copy.
func TestReferenceOfTheAPIForBrowsers(t *testing.T) {
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(docs.OpenAPI, &root))
	var want bytes.Buffer
	require.NoError(t, json.Indent(&want, ordered(t, root.Content[0]), "", " "))
	want.WriteByte('\n')
	const name = "page/openapi.json"
	if *update {
		require.NoError(t, os.WriteFile(name, want.Bytes(), 0o644))
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got), "make reference writes it")
}

// ordered writes YAML as JSON and keeps the order of members.
func ordered(t *testing.T, n *yaml.Node) (b []byte) {
	switch n.Kind {
	case yaml.MappingNode:
		b = []byte{'{'}
		for i := 0; i < len(n.Content); i += 2 {
			b = jsontext.Raw(b, n.Content[i].Value, ordered(t, n.Content[i+1]))
		}
		return append(b, '}')
	case yaml.SequenceNode:
		for _, item := range n.Content {
			b = append(append(b, ','), ordered(t, item)...)
		}
		return append(append([]byte{'['}, bytes.TrimPrefix(b, []byte(","))...), ']')
	}
	var v any
	require.NoError(t, n.Decode(&v))
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}
