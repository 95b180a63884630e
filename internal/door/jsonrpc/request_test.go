package jsonrpc

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/jsontext"
)

// FuzzRequest parses arbitrary bytes as a request. The parser must not panic. Each refusal must have a reason of the
// table and an answer that is valid JSON.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"order.place","params":{"account":"1",` +
		`"sym":"SPY","amount":"1","limit":"1"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"é","method":"subscribe",` +
		`"params":{"channels":["book.SPY","account.1"],"after":3}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":-1,"method":"cancel_after","params":{"account":"1","seconds":90000}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"\ud83d\ude00\u0001\"","params":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) {
			return
		}
		var r request
		fault := r.parse(new(jsontext.Scanner), text)
		if fault == nil {
			fault = r.method.read(&r.args, "")
		}
		if fault == nil {
			return
		}
		answer := appendFault(nil, r.id, fault)
		require.True(t, json.Valid(answer), "%s", answer)
		again, err := new(jsontext.Scanner).Scan(answer)
		require.NoError(t, err, "%s", answer)
		require.NotEmpty(t, again.Members)
	})
}
