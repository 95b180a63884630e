package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// One frame that takes unbounded memory: a value of a megabyte is echoed in the error
// of each of hundreds of elements. Judged are the lengths of the replies, and the
// server's memory.

// frameReplyMax is --max-reply: no reply is larger.
const frameReplyMax = 1 << 20

const frameAbusers = 8

func frameFlags(*runner) []string { return []string{fmt.Sprintf("--max-reply=%d", frameReplyMax)} }

// abusiveFrame is a frame, and what it is.
type abusiveFrame struct{ kind, xml string }

// abusiveFrames returns frames of each kind, with values of so many bytes.
func abusiveFrames(bytes, children int) []abusiveFrame {
	long, quotes := strings.Repeat("A", bytes), strings.Repeat("'", bytes)
	many := func(child string) string { return strings.Repeat(child, children) }
	return []abusiveFrame{
		{"a malformed symbol with malformed children", `<create><symbol sym="` + long + `!">` + many(`<account id="!">x</account>`) + `</symbol></create>`},
		{"a good name that is too long, with children", `<create><symbol sym="` + long + `">` + many(`<account id="1">1</account>`) + `</symbol></create>`},
		{"a name of escapes", `<create><symbol sym="` + quotes + `">` + many(`<account id="1">1</account>`) + `</symbol></create>`},
		{"references to characters", `<create><symbol sym="` + strings.Repeat("&#39;", bytes/5) + `">` + many(`<account id="1">1</account>`) + `</symbol></create>`},
		{"a malformed account of orders", `<transactions id="` + long + `!">` + many(`<order sym="!" amount="x" limit="y"/>`) + `</transactions>`},
		{"a ref of escapes", `<transactions id="` + abuserName + `"><order sym="ABUSE" amount="1" limit="1" ref="` + quotes + `"/>` + many(`<query ref=""/>`) + `</transactions>`},
		{"attributes that nobody knows", `<transactions id="` + abuserName + `"><order sym="` + quotes + `" amount="` + quotes + `" limit="` + quotes + `"/></transactions>`},
		{"an element that nobody knows, with a long id", `<transactions id="` + abuserName + `">` + many(`<query id="x"/>`) + `<cancel id="` + quotes + `"/></transactions>`},
	}
}

func (r *runner) abuseFrames(ctx context.Context) error {
	rounds, sent := r.size(2, 20), 0
	frames := abusiveFrames(r.size(64<<10, 1<<20), 400)
	for range rounds {
		for _, f := range frames {
			sent += frameAbusers
			err := atOnce(frameAbusers, func(int) error { return r.abuseFrame(ctx, []byte(f.xml)) })
			if err != nil {
				return fmt.Errorf("%s (%d bytes): %w", f.kind, len(f.xml), err)
			}
		}
	}
	r.abuseNote("%d frames of %d kinds", sent, len(frames))
	return nil
}

// abuseFrame sends one frame and demands a reply within bounds.
func (r *runner) abuseFrame(ctx context.Context, xml []byte) error {
	l, err := r.dialLine(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.send(xml); err != nil {
		return err
	}
	bytes, err := l.skipReply()
	return errors.Join(err, judgeReply(bytes))
}

// judgeReply demands that a reply is no larger than its bound.
func judgeReply(bytes int64) error {
	if bytes > frameReplyMax {
		return fmt.Errorf("the reply has %d bytes, and may have %d", bytes, frameReplyMax)
	}
	return nil
}
