package script

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// connectionVerbs are the verbs for connections, and for the server as a whole.
var connectionVerbs = []*verb{
	{name: "shut", tells: "shuts down the sending side of the connection: nothing more is sent, replies can still come",
		run: func(ctx context.Context, p *play, s *Step) error {
			ch, err := p.channel(ctx, s.conn)
			if err != nil {
				return err
			}
			p.trace.addEvent(s.conn, "shuts down its sending side")
			return ch.conn.CloseWrite(ctx)
		}},
	{name: "close", tells: "closes the connection, even if replies are outstanding; the next line dials it again",
		run: func(_ context.Context, p *play, s *Step) error {
			if ch := p.channels[s.conn]; ch != nil && ch.conn != nil {
				ch.conn.Close()
			}
			delete(p.channels, s.conn)
			p.trace.addEvent(s.conn, "is closed")
			return nil
		}},
	{name: "strict", tells: "from here on every connection carries any number of frames, even if the server is known to " +
		"close after each reply, or after an error; for cases about the connection itself; must precede the first frame",
		run: func(_ context.Context, p *play, _ *Step) error {
			p.strict = true
			return nil
		}},
	{name: "writes", args: "N", tells: "the next frame, or line of bytes, is sent in N writes with pauses between them",
		check: oneNumber(writesMax),
		run: func(ctx context.Context, p *play, s *Step) error {
			ch, err := p.channel(ctx, s.conn)
			if err != nil {
				return err
			}
			ch.pieces, err = strconv.Atoi(s.args[0])
			p.trace.addEvent(s.conn, "sends the next frame in "+s.args[0]+" writes")
			return err
		}},
	{name: "together", args: "N", tells: "the N frames after it are sent in one write",
		check: oneNumber(togetherMax),
		run: func(ctx context.Context, p *play, s *Step) error {
			ch, err := p.channel(ctx, s.conn)
			if err != nil {
				return err
			}
			ch.hold, err = strconv.Atoi(s.args[0])
			p.trace.addEvent(s.conn, "sends the next "+s.args[0]+" frames in one write")
			return err
		}},
	{name: "sleep", args: "DURATION", tells: "waits: 200ms, 1s",
		check: func(args []string) error {
			if len(args) == 1 {
				if d, err := time.ParseDuration(args[0]); err == nil && d > 0 && d <= sleepMax {
					return nil
				}
			}
			return fmt.Errorf("sleep needs a duration up to %s, such as 200ms", sleepMax)
		},
		run: func(ctx context.Context, _ *play, s *Step) error {
			d, err := time.ParseDuration(s.args[0])
			if err != nil {
				return err
			}
			return pause(ctx, d)
		}},
	{name: "kill", kills: true, untimed: true, tells: "kills every process of the server (SIGKILL), and starts it " +
		"again; all connections are dialed again when they are next used",
		run: func(ctx context.Context, p *play, _ *Step) error { return p.kill(ctx) }},
}

// oneNumber returns a check that there is exactly one argument, a number from 1 to most.
func oneNumber(most int) func(args []string) error {
	return func(args []string) error {
		if len(args) == 1 {
			if n, err := strconv.Atoi(args[0]); err == nil && n >= 1 && n <= most {
				return nil
			}
		}
		return fmt.Errorf("it needs a number from 1 to %d, not %q", most, args)
	}
}
