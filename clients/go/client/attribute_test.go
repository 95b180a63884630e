package client

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/wire"
)

// TestEveryAttributeOfAnOrderIsSent: a command with a value in each of its fields is an order
// with a value in each attribute.
func TestEveryAttributeOfAnOrderIsSent(t *testing.T) {
	one, err := ParseDecimal("1")
	require.NoError(t, err)
	c := Command{Kind: KindSell, Shares: one, Limit: one}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Command]()) {
		if field.Type.Kind() == reflect.String {
			reflect.ValueOf(&c).Elem().FieldByIndex(field.Index).SetString("x")
		}
	}
	sent := reflect.ValueOf(c.order())
	for _, field := range reflect.VisibleFields(reflect.TypeFor[wire.Order]()) {
		require.NotEmpty(t, sent.FieldByIndex(field.Index).String(), "%s is not sent", field.Name)
	}
}
