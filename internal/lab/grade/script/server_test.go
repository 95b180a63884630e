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

// How long the tests' servers may take: those that answer as long as a busy machine needs.
const (
	replyTime = 30 * time.Second
	hangTime  = time.Second
)

// hang is what a server answers that does not.
const hang = "hang"

// last stands before a reply after which the connection is closed.
const last = "last "

// serve answers frames with what answer says: a document; "" closes the connection. It returns a
// Player of it.
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
	t.Cleanup(func() { // t.Context has ended
		close(stop)
		l.Close()
		all.Wait()
	})
	return &Player{Dialer: &dialect.Connector{Addr: l.Addr().String(), Options: dialect.Options{ReplyTime: replyTime}},
		Seed: 1, Salt: "123456789"}
}

// impatient has a player wait for hangTime.
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

// length reads a length line, as the protocol tolerates it.
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

// twin returns a Player of the model, whose replies pass through alter; nil if they do not.
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

// parse reads a case of a group from its conversation.
func parse(t *testing.T, group, conversation string) *Case {
	t.Helper()
	c, err := Parse(group+"/try", []byte("case "+group+"/try\nrule 4.2\ntell It holds.\n"+conversation))
	require.NoError(t, err)
	return c
}
