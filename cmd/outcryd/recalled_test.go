package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/model"
	"outcry/internal/testing/budget"
)

// Patterns of the parts of a generator's frames: the account, requests with a ref, and refs.
var (
	accountOf = regexp.MustCompile(`^<transactions id="([0-9]+)">`)
	namedOf   = regexp.MustCompile(`<(?:order [^<>]*ref|amend [^<>]*newref)="r[0-9]+"[^<>]*/>`)
	usedRef   = regexp.MustCompile(` (?:new)?ref="(r[0-9]+)"`)
)

// TestWhatMemoryForgetsIsAnsweredTheSame runs a random session on a program with room for all orders and refs,
// kills it, and restarts it with room for only a few. Each query and each repeated request, with and without a
// report, must get the same bytes before and after the restart.
func TestWhatMemoryForgetsIsAnsweredTheSame(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	flags, database := dataFlags(t)
	small := append(slices.Clone(flags), "--closed-orders=3", "--refs=3")
	g := model.NewGenerator(seed, instructedSymbols, instructedAccounts).Instruct()
	again := map[string]bool{} // frames that contain one request with a ref
	for range 2 {
		p := start(t, flags...)
		c := dial(t, p.xml)
		for until := g.Commands() + budget.Of(1500); g.Commands() < until; {
			frame := string(g.Frame())
			g.Observe([]byte(c.must(t, frame)))
			if account := accountOf.FindStringSubmatch(frame); account != nil {
				for _, request := range namedOf.FindAllString(frame, -1) {
					again[account[0]+request+"</transactions>"] = true
				}
			}
		}
		for id := 1; id <= instructedAccounts; id++ {
			c.must(t, fmt.Sprintf(`<transactions id="%d"><cancel-after seconds="0"/></transactions>`, id))
		}
		c.Close()
		c = dial(t, p.xml)
		awaitStill(t, c)
		asks := questions(t, c, again)
		replied := map[string]string{}
		for _, ask := range asks {
			replied[ask] = c.must(t, ask)
		}
		p.kill()
		p = start(t, small...)
		c = dial(t, p.xml)
		for _, ask := range asks {
			require.Equal(t, replied[ask], c.must(t, ask), "seed %d: %s", seed, ask)
		}
		p.stop(t)
	}
	conserved(t, database)
}

// awaitStill waits until all cancel-on-disconnect orders are canceled.
func awaitStill(t *testing.T, c *conn) {
	t.Helper()
	for id := 1; id <= instructedAccounts; id++ {
		ask := fmt.Sprintf(`<transactions id="%d"><orders/></transactions>`, id)
		require.Eventually(t, func() bool { return !strings.Contains(c.must(t, ask), `cod="yes"`) },
			patience, time.Millisecond)
	}
}

// questions returns frames that change nothing: a query of each order and of each used ref, and the requests that
// used those refs.
func questions(t *testing.T, c *conn, again map[string]bool) (asks []string) {
	t.Helper()
	for id := 1; ; id++ {
		ask := fmt.Sprintf(`<transactions id="1"><query id="%d"/></transactions>`, id)
		if !strings.Contains(c.must(t, ask), "<status") {
			break
		}
		asks = append(asks, ask)
	}
	for frame := range again {
		begin := accountOf.FindString(frame)
		used := true
		for _, ref := range usedRef.FindAllStringSubmatch(strings.TrimPrefix(frame, begin), -1) {
			ask := begin + `<query ref="` + ref[1] + `"/></transactions>`
			if !strings.Contains(c.must(t, ask), "<status") {
				used = false
			}
			asks = append(asks, ask)
		}
		if !used {
			continue
		}
		plain := strings.Replace(frame, ` report="full"`, "", 1)
		asks = append(asks, plain, strings.Replace(plain, "/></tr", ` report="full"/></tr`, 1))
	}
	return asks
}
