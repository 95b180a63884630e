package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	api "outcry/clients/go/client"
	"outcry/internal/door/xml/wire"
)

// replyBytesMax bounds a reply: a query of an order with a million executions
// stays below it.
const replyBytesMax = 256 << 20

// client does one command.
type client struct {
	access access
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// do sends a command and prints in words what it has come to. If the connection
// breaks, what is safe to be sent again is, for as long as an answer may take.
func (c *client) do(command api.Command) error {
	if err := c.access.checkTimeout(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.access.timeout)
	defer cancel()
	o, err := c.access.options()
	if err != nil {
		return err
	}
	exchange, err := api.Dial(ctx, c.access.addr, o)
	if err != nil {
		return unsent(err)
	}
	defer exchange.Close()
	for {
		results, err := exchange.Do(ctx, command)
		if err != nil {
			return unanswered(err, command)
		}
		r := &results[0]
		if err := r.Err(); api.MaybeDone(err) {
			return unanswered(err, command)
		}
		printResult(c.stdout, r)
		switch {
		case r.Refused != nil:
			return errAnswered
		case command.Kind != api.KindListOrders || !r.More:
			return nil
		}
		command.Order = api.OrderID(r.After) // the next page, also behind one that is empty
	}
}

// sendFile is the command.
func sendFile(_ *flag.FlagSet, c *client) func([]string) error {
	return func(words []string) error { return c.send(words[0]) }
}

// send sends a file's XML as it is and prints the reply as it comes.
func (c *client) send(path string) error {
	var xml []byte
	var err error
	if path == "-" {
		xml, err = io.ReadAll(c.stdin)
	} else {
		xml, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	reply, err := c.exchange(xml)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s\n", reply)
	answers, err := wire.ParseReply(reply)
	for _, a := range answers {
		if a.Kind == "error" {
			err = errAnswered
		}
	}
	return err
}

// maybeDone is what is known of a frame without an answer.
const maybeDone = "whether the file was done is unknown"

// exchange sends one frame and returns the reply's XML. The error is a *noAnswerError
// if the frame may have been sent.
func (c *client) exchange(xml []byte) ([]byte, error) {
	if err := c.access.checkTimeout(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.access.timeout)
	defer cancel()
	o, err := c.access.options()
	if err != nil {
		return nil, err
	}
	conn, err := api.DialConn(ctx, c.access.addr, o)
	if err != nil {
		return nil, unsent(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(c.access.timeout)); err != nil {
		return nil, err
	}
	conn.SendFrame(xml)
	if err := conn.Flush(); err != nil {
		return nil, &noAnswerError{fmt.Errorf("%s: send to %s: %w", maybeDone, c.access.addr, err)}
	}
	reply, err := conn.NextReply()
	if errors.Is(err, io.EOF) {
		return nil, &noAnswerError{fmt.Errorf("%s: %s closed the connection without an answer", maybeDone, c.access.addr)}
	}
	if err != nil {
		return nil, &noAnswerError{fmt.Errorf("%s: answer of %s: %w", maybeDone, c.access.addr, err)}
	}
	return reply, nil
}
