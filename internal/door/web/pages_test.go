package web

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
)

// TestExecutionsComeInPages reads all executions of an order in answers of bounded length.
func TestExecutionsComeInPages(t *testing.T) {
	executed := make([]exchange.Execution, 2*executionsDefault+500)
	for i := range executed {
		executed[i] = exchange.Execution{Shares: 1e8, Price: 1e8, Time: int64(i) * exchange.Second}
	}
	asked := 0
	s := openSite(t, func(o *APIOptions) {
		o.Order = func(_ context.Context, _ exchange.OrderID, after, most int) (exchange.PublicOrder, bool, error) {
			page := executed[min(after, len(executed)):]
			asked = most
			return exchange.PublicOrder{Symbol: "S", Terms: exchange.Terms{Side: exchange.Buy},
				Status: exchange.Status{Executions: page[:min(most, len(page))]}}, true, nil
		}
	})
	for _, limit := range []int{0, 100, 2500, executionsMost} {
		most := executionsDefault
		path := "/api/v1/orders/1?"
		if limit > 0 {
			most, path = limit, fmt.Sprintf("/api/v1/orders/1?limit=%d&", limit)
		}
		read, next := 0, 0
		for page := 0; page == 0 || next > 0; page++ {
			var o struct {
				Executed []struct{ Time int }
				Next     int
			}
			require.Equal(t, http.StatusOK, s.get(fmt.Sprintf("%safter=%d", path, next), &o))
			require.LessOrEqual(t, len(o.Executed), most)
			require.Equal(t, most+1, asked, "no more is fetched than reports whether there is another page")
			for _, e := range o.Executed {
				require.Equal(t, read, e.Time)
				read++
			}
			next = o.Next
		}
		require.Equal(t, len(executed), read)
	}
}
