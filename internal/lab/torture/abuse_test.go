package torture

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/lab/audit"
	"outcry/internal/lab/harness"
)

// Each attack is run against an incorrect exchange here, to prove that its judge can fail.

// fakeExchange starts a server that answers each frame with answer.
func fakeExchange(t *testing.T, answer func(frame []byte) []byte) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for frames := wire.NewFrameReader(c, 8<<20); ; {
					frame, err := frames.Next()
					if err != nil {
						return
					}
					if _, err := c.Write(wire.AppendFrame(nil, answer(frame))); err != nil {
						return
					}
				}
			}()
		}
	}()
	report := &Report{ServerReport: &ServerReport{Abuse: make([]Abuse, 1)}}
	s := newServer(&run{report: report}, audit.NewSession(audit.Target{}, nil))
	s.abuser = audit.Target{Addr: l.Addr().String()}
	return s
}

// opens returns a function that answers frames of orders: with ids from first on for the first most
// orders, then with a rejection.
func opens(first, most int, refusal string) func([]byte) []byte {
	n := 0
	return func(frame []byte) []byte {
		var b bytes.Buffer
		b.WriteString("<results>")
		for range bytes.Count(frame, []byte("<order ")) {
			if n++; n > most {
				fmt.Fprintf(&b, `<error sym="ABUSE" amount="1" limit="1">%s</error>`, refusal)
				continue
			}
			fmt.Fprintf(&b, `<opened sym="ABUSE" amount="1" limit="1" id="%d"/>`, first+n-1)
		}
		b.WriteString("</results>")
		return b.Bytes()
	}
}

func TestAnEchoOfAFrameIsNoticed(t *testing.T) {
	for size, want := range map[int]string{frameReplyMax: "", frameReplyMax + 1: "the maximum is 1048576"} {
		r := fakeExchange(t, func([]byte) []byte { return bytes.Repeat([]byte("x"), size) })
		err := r.abuseFrames(context.Background())
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestABoundThatIsNotKeptIsNoticed(t *testing.T) {
	const refusal = "account 801 has 10000 open orders, of --max-open-orders-account"
	for _, c := range []struct {
		most    int
		refusal string
		want    string
	}{
		{openSmall, refusal, ""},
		{openSmall - 1, refusal, "accepted 9999"},
		{openSmall + 1, refusal, "accepted 10001"},
		{openSmall + 2*overfill, refusal, "accepted 11000"},
		{openSmall, "no more", "does not name it"},
		{openSmall, "more than --max-open-orders-account", "does not name it"},
	} {
		err := fakeExchange(t, opens(1, c.most, c.refusal)).abuseResting(context.Background())
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
}

func TestOrdersOfTheAbuserAreToldByTheirIDs(t *testing.T) {
	r := fakeExchange(t, opens(7, 3, "full"))
	ids, refusal, err := r.PlaceMany(context.Background(), r.abuser, dust, 3)
	require.NoError(t, err)
	require.Empty(t, refusal)
	require.Equal(t, []uint64{7, 8, 9}, ids)
}

func TestMemoryAndDescriptorsBeyondTheirBoundsAreNoticed(t *testing.T) {
	before := harness.Usage{Resident: 10 << 20, Files: 10}
	require.NoError(t, judgeUsage(before, harness.Usage{Resident: 30 << 20, Files: 50}, 20<<20, 50))
	require.NoError(t, judgeUsage(before, harness.Usage{Resident: 30 << 20, Files: 50}, 20<<20, 0))
	require.ErrorContains(t, judgeUsage(before, harness.Usage{Resident: 31 << 20}, 20<<20, 0), "memory grew")
	require.ErrorContains(t, judgeUsage(before, harness.Usage{Files: 51}, 20<<20, 50), "51 descriptors")
}

func TestOnlyFlagsThatThereAreArePassed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	help := "Flags:\n  -max-symbols symbols\n    \tmost symbols, not --max-accounts\n  --auth\n    \task\n"
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ncat <<'E'\n"+help+"E\n"), 0o700))
	known, err := knownFlags(context.Background(), program, []string{"--max-symbols=3", "--max-accounts=4", "--auth"})
	require.NoError(t, err)
	require.Equal(t, []string{"--max-symbols=3", "--auth"}, known)
}

func TestEveryAttackIsAFault(t *testing.T) {
	for _, a := range attacks() {
		require.True(t, isAbuse(a.name), a.name)
		require.NotNil(t, a.run, a.name)
		require.Equal(t, a.about, Server.Faults()[a.name])
		require.Less(t, len(strings.TrimPrefix(a.name, abusePrefix)), len(a.name))
	}
	require.Len(t, attacks(), 14)
}
