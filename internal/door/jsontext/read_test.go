package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestScanAcceptsWhatJSONIs(t *testing.T) {
	v, err := new(Scanner).Scan([]byte(
		` {"a" : [1, -0.5e+3, true,false ,null, {}, []], "b\u0041\ud83d\ude00":"\"\\\/\b\f\n\r\té"} `))
	require.NoError(t, err)
	a, ok := v.Get("a")
	require.True(t, ok)
	require.Len(t, a.Items, 7)
	require.Equal(t, "-0.5e+3", string(a.Items[1].Raw))
	require.True(t, a.Items[2].Yes)
	require.Equal(t, IsNull, a.Items[4].Kind)
	b, ok := v.Get("bA😀")
	require.True(t, ok)
	require.Equal(t, "\"\\/\b\f\n\r\té", b.Text)
}

func TestScanRefuses(t *testing.T) {
	many := strings.Builder{}
	for i := range 40 {
		many.WriteString(`"` + strings.Repeat("n", i+1) + `":0,`)
	}
	for name, text := range map[string]string{
		"nothing": "", "white space": " \n", "no value": "{]", "an open object": `{"a":1`, "an open array": "[1,",
		"an open string": `"a`, "a comma at the end": `{"a":1,}`, "a comma at the end of an array": "[1,]",
		"a name twice": `{"a":1,"a":1}`, "a name twice, once with an escape": `{"a":1,"\u0061":1}`,
		"one of many names twice":  "{" + many.String() + `"nnn":1}`,
		"the last of many twice":   "{" + many.String() + `"z":1,"z":2}`,
		"text after the value":     `{} {}`,
		"NaN":                      "NaN",
		"Infinity":                 "-Infinity",
		"a leading zero":           "01",
		"a bare point":             "1.",
		"a leading plus":           "+1",
		"an empty exponent":        "1e",
		"hexadecimal":              "0x1",
		"a control character":      "\"\n\"",
		"half a pair":              `"\ud800"`,
		"half a pair and text":     `"\ud800\u0041"`,
		"the other half":           `"\udc00"`,
		"an unknown escape":        `"\x41"`,
		"a short escape":           `"\u41"`,
		"an escape with a sign":    `"\u+041"`,
		"single quotes":            `{'a':1}`,
		"a name without quotes":    `{a:1}`,
		"a comment":                `{} // x`,
		"a byte-order mark":        "\ufeff{}",
		"deeper than 16":           strings.Repeat("[", 17) + strings.Repeat("]", 17),
		"objects deeper than 16":   strings.Repeat(`{"a":`, 17) + "0" + strings.Repeat("}", 17),
		"a word with an upper":     "True",
		"a name without its colon": `{"a" 1}`,
	} {
		_, err := new(Scanner).Scan([]byte(text))
		require.Error(t, err, name)
	}
	_, err := new(Scanner).Scan([]byte(strings.Repeat("[", 16) + strings.Repeat("]", 16)))
	require.NoError(t, err)
	_, err = new(Scanner).Scan([]byte("{" + many.String() + `"z":1}`))
	require.NoError(t, err)
}

// FuzzScan compares scan with encoding/json. What scan accepts must be JSON with the same values. What it refuses must
// be invalid JSON, or one of the three valid forms that only scan refuses.
func FuzzScan(f *testing.F) {
	for _, text := range []string{`{"a":1,"a":2}`, `[1,2.5e-3,"\u00e9"]`, `{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		`"\ud83d\ude00"`, `"\ud83d"`, strings.Repeat("[", 17), "nul", "-", "[1 2]", `{"a":{"b":[{}]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return // such connections are closed before their message is scanned
		}
		v, err := new(Scanner).Scan(text)
		if err != nil {
			for _, stricter := range []string{"given twice", "nested more", "surrogate pair"} {
				if strings.Contains(err.Error(), stricter) {
					return
				}
			}
			require.False(t, json.Valid(text), "%q: %v", text, err)
			return
		}
		var theirs any
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&theirs), "%q", text)
		require.True(t, json.Valid(text), "%q", text)
		require.Equal(t, theirs, plain(&v))
	})
}

// plain converts a value to the types that encoding/json uses.
func plain(v *Value) any {
	switch v.Kind {
	case IsNull:
		return nil
	case IsBool:
		return v.Yes
	case IsNumber:
		return json.Number(v.Raw)
	case IsString:
		return v.Text
	case IsArray:
		all := make([]any, 0, len(v.Items))
		for i := range v.Items {
			all = append(all, plain(&v.Items[i]))
		}
		return all
	case IsObject:
	}
	all := make(map[string]any, len(v.Members))
	for i := range v.Members {
		all[v.Members[i].Name] = plain(&v.Members[i].Value)
	}
	return all
}
