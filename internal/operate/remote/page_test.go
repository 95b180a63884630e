package remote

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePageHasEveryField compares the answers in docs/reference/ADMIN.md with their types: each field of an
// example must exist, and the examples of a type must together have all its fields.
func TestThePageHasEveryField(t *testing.T) {
	b, err := os.ReadFile("../../../docs/reference/ADMIN.md")
	require.NoError(t, err)
	page := string(b)
	said := map[string]bool{}
	read := func(example string, into any) {
		d := json.NewDecoder(strings.NewReader(example))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(into), example)
		for _, name := range regexp.MustCompile(`"(\w+)": ?`).FindAllStringSubmatch(example, -1) {
			said[name[1]] = true
		}
	}
	for request, into := range map[string]any{"POST /admin/halt": &HaltAnswer{}, "POST /admin/resume": &HaltAnswer{},
		"POST /admin/cancel-all": &CancelAllAnswer{},
		"POST /admin/block":      &BlockAnswer{}, "POST /admin/unblock": &BlockAnswer{},
		"POST /admin/symbol": &SymbolRulesAnswer{}, "POST /admin/limits": &AccountRulesAnswer{}} {
		row := regexp.MustCompile("(?m)^- `" + request + "\\?.*:\\s+`(\\{.*?\\})`").FindStringSubmatch(page)
		require.NotNil(t, row, request)
		read(row[1], into)
	}
	_, block, ok := strings.Cut(page, "```json\n")
	require.True(t, ok)
	block, _, _ = strings.Cut(block, "```")
	var status Status
	read(block, &status)
	require.Contains(t, page, `{"error":"…"}`)
	said["error"] = true
	for _, answer := range []any{HaltAnswer{}, CancelAllAnswer{}, BlockAnswer{}, SymbolRulesAnswer{},
		AccountRulesAnswer{}, ErrorAnswer{}, Status{}} {
		for _, name := range fields(reflect.TypeOf(answer)) {
			require.True(t, said[name], "%T has %s, of which the page knows nothing", answer, name)
		}
	}
	again, err := json.Marshal(status)
	require.NoError(t, err)
	require.JSONEq(t, block, string(again), "nothing of the example is empty")
}

// fields returns the names of a type's fields in JSON, and of those below.
func fields(of reflect.Type) (names []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			names = append(names, name)
		}
		names = append(names, fields(f.Type)...)
	}
	return names
}
