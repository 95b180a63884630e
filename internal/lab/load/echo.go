package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"outcry/internal/door/xml/wire"
)

// Log is a journal as an echo server needs it.
type Log interface {
	Append(record []byte) (seq uint64, err error)
	// Wait returns once everything up to seq is durable.
	Wait(ctx context.Context, seq uint64) error
}

// EchoBytesMax is the length of the largest frame that Echo answers.
const EchoBytesMax = 1 << 30

// Echo is the ceiling: a server that reads frames as an exchange does and answers
// each with as many bytes as it is told, and does nothing else. With a journal, which
// stays the caller's, it answers a frame once that is durable, as an exchange has to:
// what is left to it then are sockets and syncs. It does not read on while a client does
// not take its replies, and closes a connection with a frame of more than
// EchoBytesMax or, with a journal, an empty one, since that is no record. It
// serves until the listener is closed; the error is the listener's.
func Echo(l net.Listener, replyBytes int, log Log) error {
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
		go echo(c, reply, log)
	}
}

// echo answers what is here with one write, as an exchange does.
func echo(c net.Conn, reply []byte, log Log) {
	defer c.Close()
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	var frame []byte
	var last uint64 // record of the frames that are read
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(string(line[:len(line)-1]))
		if err != nil {
			return
		}
		if n < 0 || n > EchoBytesMax {
			return
		}
		if log == nil {
			_, err = r.Discard(n)
		} else {
			frame = slices.Grow(frame[:0], n)[:n]
			if _, err = io.ReadFull(r, frame); err == nil {
				last, err = log.Append(frame)
			}
		}
		if err != nil {
			return
		}
		if len(reply) > w.Available() && !tell(w, log, last) {
			return // the replies before this one would be sent by Write
		}
		if _, err := w.Write(reply); err != nil {
			return
		}
		if r.Buffered() == 0 && !tell(w, log, last) {
			return
		}
	}
}

// tell sends what is written, once everything up to record last is durable.
func tell(w *bufio.Writer, log Log, last uint64) bool {
	return (log == nil || log.Wait(context.Background(), last) == nil) && w.Flush() == nil
}

// ServeEcho listens and serves echoes as Echo does, until in ends or ctx does. It writes its address
// to out, in a line. The error says that it cannot listen, or is that of Echo.
func ServeEcho(ctx context.Context, addr string, replyBytes int, log Log, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		l.Close()
	}()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	return Echo(l, replyBytes, log)
}

// StartEcho starts a process that does ServeEcho on its standard input and output, and returns
// its address and what ends it.
func StartEcho(cmd *exec.Cmd) (addr string, end func(), err error) {
	in, inErr := cmd.StdinPipe() // the server ends with it
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return "", nil, fmt.Errorf("load: echo: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("load: echo: %w", err)
	}
	end = func() {
		in.Close()
		_ = cmd.Wait() // how it ends does not matter
	}
	if addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		end()
		return "", nil, fmt.Errorf("load: echo: %w", err)
	}
	return strings.TrimSpace(addr), end, nil
}
