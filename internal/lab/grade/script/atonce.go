package script

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"outcry/internal/lab/dialect"
)

// orderVerbs are the verbs that compare several replies or values.
var orderVerbs = []*verb{
	{name: "at-once", args: "N", frame: true, races: true, check: oneNumber(atOnceMax),
		tells: "the frame after it is sent on N new connections at the same moment; `{n}` is 1 to N in it. `<K WANT`: " +
			"exactly K replies match it, of those that no line above matched; `<* WANT`: all others match it; `<*`: they " +
			"may be anything. `\"$new\"` in WANT is a value that no other reply has",
		run: func(ctx context.Context, p *play, s *Step) error { return (&block{play: p, s: s}).run(ctx) }},
	{name: "different", args: "$1 $2 …", tells: "the values are all different", check: twoValues,
		run: func(_ context.Context, _ *play, s *Step) error {
			for i, value := range s.args {
				if slices.ContainsFunc(s.args[:i], func(v string) bool { return canonical(v) == canonical(value) }) {
					return wrongf("Each of these must be different, but %s occurs twice: %s.", elide(value, 40),
						elide(strings.Join(s.args, ", "), shownMax))
				}
			}
			return nil
		}},
	{name: "rising", args: "$1 $2 …", tells: "each value is a number, greater than the one before", check: twoValues,
		run: func(_ context.Context, _ *play, s *Step) error {
			for i := 1; i < len(s.args); i++ {
				a, b := number(s.args[i-1]), number(s.args[i])
				if a == nil || b == nil || a.Cmp(b) >= 0 {
					return wrongf("Each of these must be a number greater than the one before: %s.",
						elide(strings.Join(s.args, ", "), shownMax))
				}
			}
			return nil
		}},
}

func twoValues(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("it needs at least two values")
	}
	return nil
}

// block is one execution of at-once.
type block struct {
	*play
	s       *Step
	turn    int // turn of the block's frames in the trace
	docs    []string
	replies []*dialect.Reply
	errs    []error
}

// run sends the frames, receives the replies, and compares them.
func (b *block) run(ctx context.Context) error {
	n, err := strconv.Atoi(b.s.args[0])
	if err != nil {
		return err
	}
	for i := range n {
		doc, err := b.expander(strconv.Itoa(i + 1)).expand(b.s.frame)
		if err != nil {
			return err
		}
		b.docs = append(b.docs, doc)
	}
	how := "at the same moment"
	if b.orderly {
		how = "one after another"
	}
	b.turn = b.trace.sent(1, fmt.Sprintf("on %d connections, %s", n, how), b.docs[0])
	b.replies, b.errs = make([]*dialect.Reply, n), make([]error, n)
	if b.orderly {
		b.inOrder(ctx)
	} else {
		b.atOnce(ctx)
	}
	b.show()
	if err := b.broken(); err != nil {
		return err
	}
	return b.compare()
}

// inOrder lets one connection after another send its frame and receive the reply.
func (b *block) inOrder(ctx context.Context) {
	for i, doc := range b.docs {
		conn, err := b.dial(ctx)
		if err == nil {
			b.replies[i], err = conn.Do(ctx, doc)
			conn.Close()
		}
		if b.errs[i] = err; err != nil {
			return
		}
	}
}

// atOnce makes all connections first, and then uses them at the same moment. All goroutines have ended
// when it returns.
func (b *block) atOnce(ctx context.Context) {
	conns := make([]*dialect.Conn, len(b.docs))
	for i := range conns {
		conn, err := b.dial(ctx)
		if b.errs[i] = err; err != nil {
			break
		}
		conns[i] = conn
		defer conn.Close()
	}
	if slices.Contains(conns, nil) {
		return
	}
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, conn := range conns {
		all.Go(func() {
			<-start
			b.replies[i], b.errs[i] = conn.Do(ctx, b.docs[i])
		})
	}
	close(start)
	all.Wait()
}

// show adds the replies to the trace; replies of the same kind become one entry with a count.
func (b *block) show() {
	first, counts := []*dialect.Reply{}, []int{}
	for _, r := range b.replies {
		if r == nil {
			continue
		}
		kind := names(answersOf(r.Root))
		i := slices.IndexFunc(first, func(f *dialect.Reply) bool { return names(answersOf(f.Root)) == kind })
		if i < 0 {
			first, counts, i = append(first, r), append(counts, 0), len(first)
		}
		counts[i]++
	}
	for i, r := range b.replies {
		b.recordReply(b.docs[i], r)
	}
	for i, r := range first {
		b.trace.add(b.turn, "<", 1, fmt.Sprintf("%d of %d, such as", counts[i], len(b.docs)), withoutLength(r.Raw))
	}
}

// broken returns the first error, if there is one.
func (b *block) broken() error {
	i := slices.IndexFunc(b.errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	b.trace.broken(1, b.turn, b.errs[i])
	b.trace.wanted(b.turn, fmt.Sprintf("a reply on each of the %d connections", len(b.docs)))
	return b.errs[i]
}

// compare assigns the replies to the lines that want replies. The error is a *wrong.
func (b *block) compare() error {
	m := &matcher{vars: b.vars, fresh: map[string]bool{}, orders: b.orders}
	taken := make([]bool, len(b.replies))
	for _, w := range b.s.wants {
		if err := b.matchReplies(m, w, taken); err != nil {
			b.trace.wanted(b.turn, b.wanted(m))
			return err
		}
	}
	if i := slices.Index(taken, false); i >= 0 && len(b.s.wants) > 0 {
		b.trace.wanted(b.turn, b.wanted(m))
		return wrongf("Of the %d replies, this one is not allowed: %s.", len(taken), show(b.replies[i].Root))
	}
	b.vars = m.vars
	return nil
}

// matchReplies marks the replies that match w as taken. It returns a *wrong if w expects a different number of
// replies.
func (b *block) matchReplies(m *matcher, w counted, taken []bool) error {
	n, of := 0, len(taken)
	for i, reply := range b.replies {
		if taken[i] {
			continue
		}
		elements, anything, err := b.wants(w.text, strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		anything = anything || w.count == "*" && w.text == ""
		if !anything {
			err := m.answers(elements, answersOf(reply.Root), b.docs[i])
			if err != nil && w.count == "*" {
				return err
			} else if err != nil {
				continue
			}
			reply.Judge()
		}
		taken[i] = true
		n++
	}
	if m.again != "" {
		return wrongf("Each reply must have a different value here, but %s occurs twice.", elide(m.again, 40))
	}
	want, err := strconv.Atoi(strings.ReplaceAll(w.count, "{part}", b.part))
	if err != nil || n == want {
		return nil
	}
	return wrongf("Of the %d replies, exactly %d must be like %s: %d are.", of, want, b.like(m, w), n)
}

// like returns, as text, what a line expects.
func (b *block) like(m *matcher, w counted) string {
	elements, anything, err := b.wants(w.text, "1")
	if err != nil || anything || w.count == "*" && w.text == "" {
		return "anything"
	}
	if len(elements) == 0 {
		return "<results/>"
	}
	return showAll(m.filled(elements))
}

// wanted returns what all lines want, as text.
func (b *block) wanted(m *matcher) string {
	var all []string
	for _, w := range b.s.wants {
		count := strings.ReplaceAll(w.count, "{part}", b.part)
		if count == "*" {
			count = "all others"
		}
		all = append(all, count+" × "+b.like(m, w))
	}
	return strings.Join(all, ", ")
}
