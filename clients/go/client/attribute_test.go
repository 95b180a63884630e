package client

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// TestEveryAttributeOfAnOrderIsSent: a command with a value in each of its fields gives an order with a value
// in each attribute.
func TestEveryAttributeOfAnOrderIsSent(t *testing.T) {
	c := Buy("1", "SPY", Whole(1), Whole(2)).WithRef("r").With(Instructions{TIF: IOC, Post: true, Market: true,
		STP: CancelBoth, COD: Stays, Report: true})
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Instructions]()) {
		require.False(t, reflect.ValueOf(c.Instructions).FieldByIndex(field.Index).IsZero(), "%s is not tried", field.Name)
	}
	xml := string(encode([]Command{c}))
	require.Equal(t, `<transactions id="1"><order sym="SPY" amount="1" limit="2" type="market" tif="IOC" post="yes" `+
		`stp="both" cod="no" report="full" ref="r"/></transactions>`, xml)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[wire.Order]()) {
		require.Contains(t, xml, " "+strings.ToLower(field.Name)+"=", "%s is not sent", field.Name)
	}
}
