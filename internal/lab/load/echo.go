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

// Log is the part of a journal that an echo server uses.
type Log interface {
	Append(record []byte) (seq uint64, err error)
	// Wait returns when all records up to seq are durable.
	Wait(ctx context.Context, seq uint64) error
}

// EchoBytesMax is the length of the largest frame that Echo answers.
const EchoBytesMax = 1 << 30

// Echo is a server that gives an upper bound for any exchange: it reads frames as an exchange does,
// answers each with replyBytes bytes, and does nothing else. With a log, which the caller closes, it
// answers a frame once the frame is durable, as an exchange must, so only sockets and syncs remain. It
// stops reading while a client does not read its replies. It closes a connection on a frame of more than
// EchoBytesMax or, with a log, on an empty frame, since no record is empty. It serves until the listener
// is closed and returns the listener's error.
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

// echo serves one connection. It answers all frames received so far with one write, as an exchange does.
func echo(c net.Conn, reply []byte, log Log) {
	defer c.Close()
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	var frame []byte
	var last uint64 // last record of the frames read
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
		if len(reply) > w.Available() && !flushDurable(w, log, last) {
			return // Write would send the replies before this one too early
		}
		if _, err := w.Write(reply); err != nil {
			return
		}
		if r.Buffered() == 0 && !flushDurable(w, log, last) {
			return
		}
	}
}

// flushDurable sends the buffered replies once all records up to last are durable. It returns false on an error.
func flushDurable(w *bufio.Writer, log Log, last uint64) bool {
	return (log == nil || log.Wait(context.Background(), last) == nil) && w.Flush() == nil
}

// ServeEcho listens on addr and serves as Echo does, until in or ctx ends. It writes its address to out, followed
// by a line feed. It returns an error if it cannot listen, or the error of Echo.
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

// StartEcho starts a process that runs ServeEcho on its standard input and output. It returns the
// server's address and a function that ends the process.
func StartEcho(cmd *exec.Cmd) (addr string, end func(), err error) {
	in, inErr := cmd.StdinPipe() // closing it ends the server
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return "", nil, fmt.Errorf("load: echo: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("load: echo: %w", err)
	}
	end = func() {
		in.Close()
		_ = cmd.Wait() // the exit status does not matter
	}
	if addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		end()
		return "", nil, fmt.Errorf("load: echo: %w", err)
	}
	return strings.TrimSpace(addr), end, nil
}
