package dialect

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// small lists servers, each with a habit that earlier servers of this protocol had, and the remarks that the habit
// causes.
var small = []struct {
	name   string
	server habitServer
	found  Habits
	forms  []Form
}{
	{name: "none"},
	{"account", habitServer{habits: Habits{AccountAttribute: true}}, Habits{AccountAttribute: true},
		[]Form{AccountAttribute}},
	{"CRLF, or it closes", habitServer{habits: Habits{CRLF: true}}, Habits{CRLF: true}, []Form{LengthLine}},
	{"CRLF, or it waits", habitServer{habits: Habits{CRLF: true}, patient: true}, Habits{CRLF: true},
		[]Form{LengthLine}},
	{"no length", habitServer{habits: Habits{Bare: true}}, Habits{Bare: true}, []Form{LengthLine}},
	{"no length, a line feed behind", habitServer{habits: Habits{Bare: true}, tail: "\n"}, Habits{Bare: true},
		[]Form{LengthLine}},
	{"short length", habitServer{habits: Habits{WrongLength: true}, off: -3}, Habits{WrongLength: true}, []Form{Length}},
	{"long length", habitServer{habits: Habits{WrongLength: true}, off: 5}, Habits{WrongLength: true}, []Form{Length}},
	{"length without the line feed behind", habitServer{tail: "\n"}, Habits{WrongLength: true}, []Form{Length}},
	{"length without the byte 0 behind", habitServer{tail: "\x00"}, Habits{WrongLength: true}, []Form{Length}},
	{"length that is sometimes wrong", habitServer{habits: Habits{WrongLength: true}, off: 1,
		sometime: func(doc string) bool { return strings.HasPrefix(doc, "<transactions") }}, Habits{WrongLength: true},
		[]Form{Length}},
	{"one frame, then closes", habitServer{habits: Habits{OneFrame: true}}, Habits{OneFrame: true}, nil},
	{"one frame, then waits", habitServer{habits: Habits{OneFrame: true}, patient: true}, Habits{OneFrame: true}, nil},
	{"an error, then closes", habitServer{habits: Habits{ErrorCloses: true}}, Habits{ErrorCloses: true}, nil},
	{"result", habitServer{habits: Habits{ResultRoot: true}}, Habits{ResultRoot: true}, []Form{Root}},
	{"whole, or an error", habitServer{habits: Habits{Whole: true}, rejects: true}, Habits{Whole: true}, nil},
	{"whole, or it closes", habitServer{habits: Habits{Whole: true}}, Habits{Whole: true}, nil},
	{"all, without length", habitServer{habits: Habits{true, true, true, false, true, true, true, false}},
		Habits{true, true, true, false, true, true, true, false}, []Form{LengthLine, Root, AccountAttribute}},
	{"all, with a wrong length", habitServer{habits: Habits{true, true, false, true, true, true, true, false}, off: 9},
		Habits{true, true, false, true, true, true, true, false}, []Form{LengthLine, Length, Root, AccountAttribute}},
}

func TestProbeFindsEachHabitAndTheServerIsThenUnderstood(t *testing.T) {
	for i := range small {
		c := &small[i]
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := c.server.serve(t)
			ids := fresh()
			found, remarks, err := Probe(t.Context(), &Connector{Addr: addr}, ids, Known{})
			require.NoError(t, err)
			require.Equal(t, c.found, found)
			require.ElementsMatch(t, c.forms, forms(remarks))
			for _, r := range remarks {
				require.NotEmpty(t, r.Detail, r.Form)
				require.NotEmpty(t, r.Sent, r.Form)
				require.NotEmpty(t, r.Got, r.Form)
			}
			speaks(t, addr, found, ids)
		})
	}
}

// speaks has a conversation with a server that has the given habits, and requires that there are no other remarks.
func speaks(t *testing.T, addr string, habits Habits, fresh func() string) {
	var more noted
	c := dial(t, addr, Options{Habits: habits, Remark: more.note})
	id := fresh()
	docs := []string{
		`<create><account id="` + id + `" balance="100"/>` +
			`<symbol sym="SPY"><account id="` + id + `">5</account></symbol></create>`,
		`<transactions id="` + id + `"><order sym="SPY" amount="1" limit="10"/></transactions>`,
		`<transactions id="` + id + `"><order sym="SPY" amount="-1" limit="10"/><query id="1"/></transactions>`,
		`<transactions id="` + id + `"><order sym="SPY" amount="1" limit="1000"/></transactions>`,
		`<create><account id="` + fresh() + `" balance="100"/></create>`,
	}
	for _, doc := range docs { // all frames are sent before the first reply is received
		require.NoError(t, c.Send(t.Context(), doc))
	}
	for i, children := range []string{"created created", "opened", "opened status", "error", "created"} {
		r, err := c.Receive(t.Context())
		require.NoError(t, err)
		var names []string
		for _, e := range r.Root.Children {
			names = append(names, e.Name)
		}
		require.Equal(t, children, strings.Join(names, " "), r.Raw)
		if !habits.AccountAttribute {
			require.Equal(t, docs[i], r.Sent)
		}
		r.Judge()
	}
	require.Empty(t, more.all)
}

func TestHabitsThatAreKnownAreNotProbedAndCostNothing(t *testing.T) {
	t.Parallel()
	s := habitServer{habits: Habits{AccountAttribute: true, CRLF: true, Bare: true, OneFrame: true, Whole: true}}
	addr := s.serve(t)
	known := Known{Account: "account", Length: "crlf", Bare: "yes", OneFrame: "yes", Decimals: "no"}
	found, remarks, err := Probe(t.Context(), &Connector{Addr: addr}, fresh(), known)
	require.NoError(t, err)
	require.Equal(t, s.habits, found)
	require.Empty(t, remarks)
	require.Equal(t, 3, s.asked(), "an account, and a trade of two frames")
}

func TestWhatIsKnownToBeOtherwiseIsNotFound(t *testing.T) {
	t.Parallel()
	s := habitServer{habits: Habits{AccountAttribute: true, Bare: true}}
	addr := s.serve(t)
	known := Known{Account: "id", Length: "lf", Bare: "no", OneFrame: "no", Decimals: "yes"}
	found, remarks, err := Probe(t.Context(), &Connector{Addr: addr}, fresh(), known)
	require.NoError(t, err)
	require.Equal(t, Habits{}, found)
	require.ElementsMatch(t, []Form{LengthLine, ErrorText, Echo}, forms(remarks))
}

func TestProbeNamesAHabitThatThereIsNot(t *testing.T) {
	_, _, err := Probe(t.Context(), &Connector{}, fresh(), Known{Length: "cr"})
	require.EqualError(t, err, `habits: length is "cr"; it must be auto, crlf or lf`)
}

func TestProbeSaysThatNothingAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle func(net.Conn)
		kind   Kind
	}{
		"closes": {func(net.Conn) {}, Closed},
		"hangs":  {says(""), TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Probe(t.Context(), &Connector{Addr: listen(t, c.handle)}, fresh(), Known{})
			var b *Broken
			require.ErrorAs(t, err, &b)
			require.Equal(t, c.kind, b.Kind)
		})
	}
}

func TestProbeWaitsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), ReplyTime-time.Second/2)
	defer cancel()
	to := &Connector{Addr: listen(t, says("")), Options: Options{ReplyTime: 50 * time.Millisecond}}
	_, _, err := Probe(ctx, to, fresh(), Known{})
	kind(t, err, TimedOut)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestProbeOfGarbageFindsNothing(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(c net.Conn) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\nServer: mine\r\n\r\n")) })
	found, remarks, err := Probe(t.Context(), &Connector{Addr: addr}, fresh(), Known{})
	require.NoError(t, err)
	require.Equal(t, Habits{}, found)
	require.Empty(t, remarks)
}

// The server crashes when an attribute is missing, and restarts without its accounts.
func TestProbeGoesOnWhenTheServerWasStartedAgain(t *testing.T) {
	t.Parallel()
	var s *habitServer
	var addr string
	start := func() {
		s = &habitServer{habits: Habits{AccountAttribute: true}}
		addr = s.serve(t)
	}
	start()
	restarts := 0
	open := func(ctx context.Context) (net.Conn, error) {
		s.mu.Lock()
		down := s.down
		s.mu.Unlock()
		if down {
			restarts++
			start()
		}
		return (&Connector{Addr: addr}).open(ctx, time.Minute)
	}
	s.falls = true
	found, _, err := Probe(t.Context(), &Connector{Open: open}, fresh(), Known{})
	require.NoError(t, err)
	require.Equal(t, Habits{AccountAttribute: true}, found)
	require.Equal(t, 1, restarts)
}
