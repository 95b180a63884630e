package load

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"

	"outcry/internal/wire"
)

// Echo is the ceiling: a server that reads frames as an exchange does and answers
// each with as many bytes as it is told, and does nothing else. It serves until
// the listener is closed; the error is the listener's.
func Echo(l net.Listener, replyBytes int) error {
	reply := []byte("<results>")
	for len(reply) < replyBytes-len("</results>") {
		reply = append(reply, ' ')
	}
	reply = wire.AppendFrame(nil, append(reply, "</results>"...))
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go echo(c, reply)
	}
}

// echo answers what is here with one write, as an exchange does.
func echo(c net.Conn, reply []byte) {
	defer c.Close()
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(string(line[:len(line)-1]))
		if err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
			return
		}
		if _, err := w.Write(reply); err != nil {
			return
		}
		if r.Buffered() == 0 && w.Flush() != nil {
			return
		}
	}
}
