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
	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
)

// doCommand sends a command and prints its result in words. A list of orders is requested page by page, up to
// the last. If the connection breaks, a command that is safe to repeat is resent until the timeout ends.
func doCommand(c *cli.Client, command api.Command) error {
	if err := c.Access.CheckTimeout(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Access.Timeout)
	defer cancel()
	o, err := c.Access.Options()
	if err != nil {
		return err
	}
	exchange, err := api.Dial(ctx, c.Access.Addr, o)
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
		printResult(c.Stdout, r)
		switch {
		case r.Refused != nil:
			return cli.ErrAnswered
		case command.Kind != api.KindListOrders || !r.More:
			return nil
		}
		command.Order = api.OrderID(r.After) // request the next page, even if this one was empty
	}
}

// sendFile returns the function that runs the command send.
func sendFile(_ *flag.FlagSet, c *cli.Client) func([]string) error {
	return func(words []string) error { return sendXML(c, words[0]) }
}

// sendXML sends a file's XML unchanged and prints the reply unchanged.
func sendXML(c *cli.Client, path string) error {
	var xml []byte
	var err error
	if path == "-" {
		xml, err = io.ReadAll(c.Stdin)
	} else {
		xml, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	reply, err := exchangeXML(c, xml)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "%s\n", reply)
	answers, err := wire.ParseReply(reply)
	for _, a := range answers {
		if a.Kind == "error" {
			err = cli.ErrAnswered
		}
	}
	return err
}

// maybeDone begins the error text for a frame that got no reply.
const maybeDone = "whether the file was executed is unknown"

// exchangeXML sends one frame and returns the reply's XML. If the frame may have been sent but no reply came, the
// error is a *cli.NoAnswerError.
func exchangeXML(c *cli.Client, xml []byte) ([]byte, error) {
	if err := c.Access.CheckTimeout(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Access.Timeout)
	defer cancel()
	o, err := c.Access.Options()
	if err != nil {
		return nil, err
	}
	conn, err := api.DialConn(ctx, c.Access.Addr, o)
	if err != nil {
		return nil, unsent(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(c.Access.Timeout)); err != nil {
		return nil, err
	}
	conn.SendFrame(xml)
	if err := conn.Flush(); err != nil {
		return nil, cli.NoAnswer(fmt.Errorf("%s: send to %s: %w", maybeDone, c.Access.Addr, err))
	}
	reply, err := conn.NextReply()
	if errors.Is(err, io.EOF) {
		return nil, cli.NoAnswer(fmt.Errorf("%s: %s closed the connection without an answer", maybeDone, c.Access.Addr))
	}
	if err != nil {
		return nil, cli.NoAnswer(fmt.Errorf("%s: answer of %s: %w", maybeDone, c.Access.Addr, err))
	}
	return reply, nil
}
