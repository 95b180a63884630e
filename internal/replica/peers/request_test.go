package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal"
)

// records returns a journal with count records.
func records(t testing.TB, o journal.Options, count int) *journal.Journal {
	t.Helper()
	o.Version = 1
	j, err := journal.Open(t.TempDir(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	for i := range count {
		_, err := j.Append(recordOf(uint64(i + 1)))
		require.NoError(t, err)
	}
	require.NoError(t, j.Wait(t.Context(), uint64(count)))
	return j
}

func recordOf(seq uint64) []byte { return bytes.Repeat(fmt.Append(nil, seq, "."), int(seq%977)+1) }

func serving(j *journal.Journal) func(*Options) { return func(o *Options) { o.Journal = j } }

func TestFetchReadsRecordsOfAPeersJournal(t *testing.T) {
	const count = 5000
	j := records(t, journal.Options{SegmentBytes: 1 << 20}, count)
	large := bytes.Repeat([]byte("large"), 5<<20) // 25 MiB
	_, err := j.Append(large)
	require.NoError(t, err)
	require.NoError(t, j.Wait(t.Context(), count+1))
	nodes := several(t, 2, serving(j))
	next := uint64(3)
	require.NoError(t, nodes[1].Fetch(t.Context(), 2, 3, count+1, func(seq uint64, record []byte) error {
		require.Equal(t, next, seq)
		next++
		if seq > count {
			require.True(t, bytes.Equal(large, record))
		} else {
			require.Equal(t, recordOf(seq), bytes.Clone(record))
		}
		return nil
	}))
	require.Equal(t, uint64(count+2), next)
	none := func(uint64, []byte) error { panic("none should come") }
	require.NoError(t, nodes[1].Fetch(t.Context(), 2, 10, 9, none), "an empty range")
	require.ErrorContains(t, nodes[1].Fetch(t.Context(), 2, 10, count+2, none), "has synced those up to 5001")
	require.ErrorContains(t, nodes[1].Fetch(t.Context(), 2, 0, 9, none), "records 0 to 9")
	require.ErrorContains(t, nodes[1].Fetch(t.Context(), 7, 1, 9, none), "node 7 is not a peer of node 1")
	enough := errors.New("enough")
	require.ErrorIs(t, nodes[1].Fetch(t.Context(), 2, 1, count, func(uint64, []byte) error { return enough }), enough)
	eventually(t, func() bool { return nodes[2].idle() })
	require.NoError(t, j.RemoveBefore(count), "the reader of an ended fetch is left")
	require.Greater(t, j.First(), uint64(1))
	require.ErrorIs(t, nodes[1].Fetch(t.Context(), 2, 1, count, none), journal.ErrGone)
}

// idle reports whether no request is being served.
func (n *node) idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	served := n.backups
	for _, p := range n.peers {
		served += p.served
	}
	return served == 0
}

func TestAFetchThatIsCutIsNoWholeOne(t *testing.T) {
	const count = 5000
	j := records(t, journal.Options{}, count)
	// The last record is larger than all socket buffers between the nodes, so node 2 is still
	// sending when it closes.
	_, err := j.Append(make([]byte, 50<<20))
	require.NoError(t, err)
	require.NoError(t, j.Wait(t.Context(), count+1))
	two := begin(t, 2, listener(t), nil, serving(j))
	between := newRelay(t, two.address, 1<<30, false)
	one := begin(t, 1, listener(t), map[uint64]string{2: between.Addr().String()})
	require.NoError(t, two.SetPeers(map[uint64]string{1: one.address}))
	got := uint64(0)
	err = one.Fetch(t.Context(), 2, 1, count+1, func(seq uint64, _ []byte) error {
		if got = seq; seq == 100 {
			require.NoError(t, two.SetPeers(nil)) // node 2 closes all connections of node 1
		}
		return nil
	})
	require.Error(t, err)
	require.GreaterOrEqual(t, got, uint64(100))
	require.LessOrEqual(t, got, uint64(count))
	eventually(t, func() bool { return two.idle() })
}

func TestTheServedOfOnePeerAreBounded(t *testing.T) {
	j := records(t, journal.Options{}, 10)
	release, asked := make(chan struct{}), make(chan struct{}, 100)
	nodes := several(t, 3, serving(j), func(o *Options) {
		o.Ask = func(ctx context.Context, from uint64, request []byte) ([]byte, error) {
			asked <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return append(fmt.Append(nil, from, " asked "), request...), ctx.Err()
		}
	})
	answers := make(chan string, servedMax)
	for range servedMax {
		go func() {
			said, err := nodes[1].Ask(t.Context(), 2, []byte("x"))
			answers <- fmt.Sprint(string(said), err)
		}()
		<-asked
	}
	_, err := nodes[1].Ask(t.Context(), 2, []byte("y"))
	require.ErrorContains(t, err, errBusy.Error())
	err = nodes[1].Fetch(t.Context(), 2, 1, 10, func(uint64, []byte) error { return nil })
	require.ErrorContains(t, err, errBusy.Error())
	require.NoError(t, nodes[3].Fetch(t.Context(), 2, 1, 10, func(uint64, []byte) error { return nil }), "another peer")
	close(release)
	for range servedMax {
		require.Equal(t, "1 asked x<nil>", <-answers)
	}
	eventually(t, func() bool { return nodes[2].idle() })
	said, err := nodes[1].Ask(t.Context(), 2, []byte("z"))
	require.NoError(t, err)
	require.Equal(t, "1 asked z", string(said))
}

func TestAnAskThatNobodyWaitsForEnds(t *testing.T) {
	ended := make(chan struct{})
	begun := make(chan struct{})
	nodes := several(t, 2, func(o *Options) {
		o.Ask = func(ctx context.Context, _ uint64, _ []byte) ([]byte, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := nodes[1].Ask(ctx, 2, nil)
		done <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	select {
	case <-ended:
	case <-time.After(patience):
		require.Fail(t, "the request does not end")
	}
}

func TestAsksAreBounded(t *testing.T) {
	nodes := several(t, 2, func(o *Options) {
		o.Ask = func(_ context.Context, _ uint64, request []byte) ([]byte, error) {
			switch string(request) {
			case "fail":
				return nil, errors.New(strings.Repeat("é", reasonBytesMax))
			case "long":
				return make([]byte, AskBytesMax), nil
			case "longer":
				return make([]byte, AskBytesMax+1), nil
			}
			return request, nil
		}
	})
	said, err := nodes[1].Ask(t.Context(), 2, bytes.Repeat([]byte("r"), AskRequestMax))
	require.NoError(t, err)
	require.Len(t, said, AskRequestMax)
	said, err = nodes[1].Ask(t.Context(), 2, []byte("long"))
	require.NoError(t, err)
	require.Len(t, said, AskBytesMax)
	_, err = nodes[1].Ask(t.Context(), 2, []byte("longer"))
	require.ErrorContains(t, err, "an answer has 1048577 bytes, more than 1048576")
	_, err = nodes[1].Ask(t.Context(), 2, make([]byte, AskRequestMax+1))
	require.ErrorContains(t, err, "a request has 65537 bytes, more than 65536")
	_, err = nodes[1].Ask(t.Context(), 2, []byte("fail"))
	require.ErrorContains(t, err, strings.Repeat("é", reasonBytesMax/2))
	require.Less(t, len(err.Error()), 2*reasonBytesMax)
}

func TestABackupIsStreamedAndOnlyOneAtATime(t *testing.T) {
	set(t, &keepEvery, time.Millisecond)
	content := bytes.Repeat([]byte("backup"), 1<<20)
	begun, release := make(chan struct{}), make(chan error)
	nodes := several(t, 3, func(o *Options) {
		o.Backup = func(ctx context.Context, w io.Writer) error {
			begun <- struct{}{}
			if err := <-release; err != nil {
				return err
			}
			_, err := io.Copy(w, bytes.NewReader(content))
			return err
		}
	})
	var got bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- nodes[1].Backup(t.Context(), 2, &got) }()
	<-begun
	require.ErrorContains(t, nodes[3].Backup(t.Context(), 2, io.Discard), errBusy.Error())
	release <- nil
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(content, got.Bytes()))
	go func() { done <- nodes[3].Backup(t.Context(), 2, io.Discard) }()
	<-begun
	release <- errors.New("Postgres is away")
	require.ErrorContains(t, <-done, "Postgres is away")
	client := NewClient(helloOf(3), Security{}, helloOf(3).Refuse)
	got.Reset()
	go func() { done <- client.Backup(t.Context(), 2, nodes[2].address, &got) }()
	<-begun
	release <- nil
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(content, got.Bytes()))
	full := errors.New("the disk is full")
	go func() { done <- client.Backup(t.Context(), 2, nodes[2].address, failing{full}) }()
	<-begun
	release <- nil
	require.ErrorIs(t, <-done, full)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// silent starts a node that accepts connections and never answers requests. It runs say instead.
func silent(t *testing.T, say func(net.Conn)) string {
	t.Helper()
	l := listener(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			v := visit{frames: frameReader{r: conn}}
			var begin [prefaceBytes]byte
			_, _ = io.ReadFull(conn, begin[:])
			_ = receiveJSON(&v.frames, &v.hello)
			_ = sendJSON(conn, nil, answer{Hello: helloOf(2)}, patience)
			_ = receiveJSON(&v.frames, new(verdict))
			say(conn)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestAnswersThatAreNotOnes(t *testing.T) {
	set(t, &silenceMax, patience)
	text, err := json.Marshal(failure{Text: "no"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		said []byte
		want string
	}{
		"silence":     {nil, "i/o timeout"},
		"garbage":     {[]byte("garbage that is long enough"), "malformed frame"},
		"empty":       {make([]byte, frameHeader), "it is empty"},
		"unknown tag": {appendFrame(nil, 'q', nil), "tag 0x71"},
		"failure":     {appendFrame(nil, tagError, text), "no"},
		"no failure":  {appendFrame(nil, tagError, []byte("{")), "malformed frame"},
		"too much": {bytes.Repeat(appendFrame(nil, tagData, make([]byte, 1<<19)), 3),
			"the answer has more than 1048576 bytes"},
		"half a frame": {appendFrame(nil, tagData, make([]byte, 100))[:50], "i/o timeout"},
	} {
		if silenceMax = patience; c.want == "i/o timeout" {
			silenceMax = 50 * time.Millisecond
		}
		address := silent(t, func(conn net.Conn) { _, _ = conn.Write(c.said) })
		_, err := NewClient(helloOf(1), Security{}, helloOf(1).Refuse).Ask(t.Context(), 2, address, nil)
		require.ErrorContains(t, err, c.want, name)
	}
	silenceMax = patience
	address := silent(t, func(conn net.Conn) { _ = conn.Close() })
	_, err = NewClient(helloOf(1), Security{}, helloOf(1).Refuse).Ask(t.Context(), 2, address, nil)
	require.Error(t, err)
	_, err = NewClient(helloOf(1), Security{}, helloOf(1).Refuse).Ask(t.Context(), 3, address, nil)
	require.ErrorContains(t, err, "node 3 was called, but node 2 answered")
	var short uint64
	one := begin(t, 1, listener(t), map[uint64]string{2: silent(t, func(conn net.Conn) {
		_, _ = conn.Write(appendFrame(appendFrame(nil, tagData, nil), tagEnd, nil))
	})})
	err = one.Fetch(t.Context(), 2, 5, 6, func(seq uint64, _ []byte) error { short = seq; return nil })
	require.ErrorContains(t, err, "has sent records only up to 5 instead of 6")
	require.Equal(t, uint64(5), short)
	require.NoError(t, one.SetPeers(map[uint64]string{2: silent(t, func(conn net.Conn) {
		_, _ = conn.Write(bytes.Repeat(appendFrame(nil, tagData, nil), 9))
	})}))
	err = one.Fetch(t.Context(), 2, 5, 6, func(seq uint64, _ []byte) error { short = seq; return nil })
	require.ErrorContains(t, err, "a record after record 6")
	require.Equal(t, uint64(6), short)
}

func TestCloseEndsWhatIsServed(t *testing.T) {
	begun := make(chan struct{})
	nodes := several(t, 2, func(o *Options) {
		o.Log = slog.New(slog.DiscardHandler)
		o.Backup = func(ctx context.Context, _ io.Writer) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}
	})
	done := make(chan error, 1)
	go func() { done <- nodes[1].Backup(context.Background(), 2, io.Discard) }()
	<-begun
	nodes[2].Close()
	require.Error(t, <-done)
	nodes[2].Close()
	require.False(t, nodes[2].Send(1, nil) && nodes[2].Stats().Peers[1].Connected)
}
