package script

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/model"
)

// replyTime is how long a server may take to answer, even on a busy machine; hangTime is for servers that hang.
const (
	replyTime = 30 * time.Second
	hangTime  = time.Second
)

// hang is the answer that makes a server not answer at all.
const hang = "hang"

// last is the prefix of a reply after which the server closes the connection.
const last = "last "

// serve starts a server that answers frames with the document that answer returns; "" closes the connection.
// It returns a Player for it.
func serve(t *testing.T, answer func(doc string) string) *Player {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				ended := context.AfterFunc(t.Context(), func() { conn.Close() })
				defer ended()
				speak(conn, answer, stop)
			})
		}
	})
	t.Cleanup(func() { // t.Context has ended by now
		close(stop)
		l.Close()
		all.Wait()
	})
	return &Player{Dialer: &dialect.Connector{Addr: l.Addr().String(), Options: dialect.Options{ReplyTime: replyTime}},
		Seed: 1, Salt: "123456789"}
}

// impatient makes a player wait only hangTime for a reply.
func impatient(p *Player) { p.Dialer.(*dialect.Connector).Options.ReplyTime = hangTime }

// speak answers the frames of a connection.
func speak(conn net.Conn, answer func(doc string) string, stop <-chan struct{}) {
	r := bufio.NewReader(conn)
	say := func(doc string) { fmt.Fprintf(conn, "%d\n%s", len(doc), doc) }
	for {
		n, err := length(r)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			say("<results><error>no length</error></results>")
			return
		}
		doc := make([]byte, n)
		if _, err := io.ReadFull(r, doc); err != nil {
			return
		}
		switch reply := answer(string(doc)); reply {
		case "":
			return
		case hang:
			<-stop
			return
		default:
			doc, isLast := strings.CutPrefix(reply, last)
			if say(doc); isLast {
				return
			}
		}
	}
}

// length reads a length line, with the deviations that the protocol tolerates.
func length(r *bufio.Reader) (int, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, io.EOF
		}
		if line = strings.Trim(line, " \r\n"); line == "" {
			continue
		}
		n, err := strconv.Atoi(line)
		if err == nil && (n < 0 || n > 4<<20) {
			err = strconv.ErrRange
		}
		return n, err
	}
}

// twin returns a Player for the model, whose replies pass through alter unless that is nil.
func twin(t *testing.T, alter func(doc, reply string) string) *Player {
	t.Helper()
	var mu sync.Mutex
	x := model.New()
	return serve(t, func(doc string) string {
		mu.Lock()
		defer mu.Unlock()
		reply := string(x.Do([]byte(doc), time.Now().Unix()))
		if alter != nil {
			reply = alter(doc, reply)
		}
		return reply
	})
}

// parse parses a case of a group from its conversation.
func parse(t *testing.T, group, conversation string) *Case {
	t.Helper()
	c, err := Parse(group+"/try", []byte("case "+group+"/try\nrule 4.2\ntell It holds.\n"+conversation))
	require.NoError(t, err)
	return c
}
