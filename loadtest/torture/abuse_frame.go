package torture

import (
	"context"
	"errors"
	"fmt"

	"outcry/internal/check"
)

// One frame that takes unbounded memory: a value of a megabyte is echoed in the error
// of each of hundreds of elements. Judged are the lengths of the replies, and the
// server's memory.

// frameReplyMax is --max-reply: no reply is larger.
const frameReplyMax = 1 << 20

const frameAbusers = 8

func (r *runner) abuseFrames(ctx context.Context) error {
	rounds, sent := r.size(2, 20), 0
	frames := check.LargeFrames(abuserName, r.size(64<<10, 1<<20), 400)
	for range rounds {
		for _, f := range frames {
			sent += frameAbusers
			err := check.AtOnce(frameAbusers, func(int) error { return r.abuseFrame(ctx, []byte(f.XML)) })
			if err != nil {
				return fmt.Errorf("%s (%d bytes): %w", f.Kind, len(f.XML), err)
			}
		}
	}
	r.abuseNote("%d frames of %d kinds", sent, len(frames))
	return nil
}

// abuseFrame sends one frame and demands a reply within bounds.
func (r *runner) abuseFrame(ctx context.Context, xml []byte) error {
	l, err := check.DialLine(ctx, r.abuser)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Send(xml); err != nil {
		return err
	}
	bytes, err := l.SkipReply()
	return errors.Join(err, judgeReply(bytes))
}

// judgeReply demands that a reply is no larger than its bound.
func judgeReply(bytes int64) error {
	if bytes > frameReplyMax {
		return fmt.Errorf("the reply has %d bytes, and may have %d", bytes, frameReplyMax)
	}
	return nil
}
