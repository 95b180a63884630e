package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
	"outcry/internal/testing/budget"
)

// TestAKillInTheMiddleOfACascade kills the program while an order matches thousands of resting orders, in several
// journal records. Self-trade prevention cancels half of the resting orders. After the restart the order is either
// complete or absent.
func TestAKillInTheMiddleOfACascade(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 8))
	flags, database := dataFlags(t)
	p := start(t, flags...)
	x, c := model.New(), dial(t, p.xml)
	do := func(frame string) string {
		got := c.must(t, frame)
		require.Equal(t, model.Normalize(x.Do([]byte(frame), 1)), model.Normalize([]byte(got)))
		return got
	}
	do(`<create><account id="1" balance="100000000"/><account id="2" balance="0"/><symbol sym="S">` +
		`<account id="1">100000</account><account id="2">100000</account></symbol></create>`)
	const rests = 2500 // resting orders per account, more than one record holds
	happened := 0
	for round, way := range []string{`limit="6" tif="IOC"`, `limit="6"`, `type="market"`, `limit="6"`} {
		if !budget.Full && round/2 != int(seed%2) {
			continue
		}
		for id := 1; id <= 2; id++ {
			for range 5 {
				do(fmt.Sprintf(`<transactions id="%d">%s</transactions>`, id,
					strings.Repeat(`<order sym="S" amount="-1" limit="5.5"/>`, rests/5)))
			}
		}
		stp := []string{"oldest", "oldest", "oldest", "both"}[round]
		frame := fmt.Sprintf(`<transactions id="1"><order sym="S" amount="%d" %s stp="%s" ref="big%d"/></transactions>`,
			rests, way, stp, round)
		answered := make(chan error, 1)
		go func() {
			_, err := c.ask(frame)
			answered <- err
		}()
		time.Sleep(time.Duration(r.Int64N(int64(12 * time.Millisecond)))) // so that the kill can hit any moment
		p.kill()
		replied := <-answered == nil
		p = start(t, flags...)
		c = dial(t, p.xml)
		there := strings.Contains(c.must(t, fmt.Sprintf(`<transactions id="1"><query ref="big%d"/></transactions>`, round)),
			"<status")
		require.True(t, there || !replied, "seed %d: it was answered, and is not there", seed)
		if there {
			x.Do([]byte(frame), 1)
			happened++
		}
		do(`<transactions id="1"><orders/><account/><fills/></transactions>`)
		do(`<transactions id="1"><cancel-all/></transactions>`)
		do(`<transactions id="2"><cancel-all/></transactions>`)
	}
	t.Logf("%d had happened", happened)
	p.stop(t)
	compareTables(t, database, x)
}
