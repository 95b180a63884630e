package peers

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"outcry/internal/auth"
	"outcry/internal/testing/certtest"
)

// alone makes node 1, whose peers 2 and 3 are down.
func alone(t testing.TB, change ...func(*Options)) *node {
	t.Helper()
	const away = "127.0.0.1:1"
	return begin(t, 1, listener(t), map[uint64]string{2: away, 3: away}, change...)
}

// connect makes a connection and sends nothing.
func connect(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// cut waits until the other side has closed the connection, and returns the bytes that it sent.
func cut(t testing.TB, conn net.Conn) []byte {
	t.Helper()
	said, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	return said
}

// openingOf returns the bytes with which a node opens a connection to node 1.
func openingOf(t testing.TB, o opening) []byte {
	t.Helper()
	content, err := json.Marshal(o)
	require.NoError(t, err)
	return appendFrame(preface(), content[0], content[1:])
}

func encode(t testing.TB, m *raftpb.Message) []byte {
	t.Helper()
	content, err := proto.Marshal(m)
	require.NoError(t, err)
	return appendFrame(nil, content[0], content[1:])
}

func TestStrangersAreCutAndHarmNobody(t *testing.T) {
	set(t, &helloTimeout, 100*time.Millisecond)
	one := alone(t)
	hello := openingOf(t, opening{To: 1, For: forMessages, Hello: helloOf(2)})
	old := append([]byte(magic), 99, 0, 0, 0)
	huge := append(preface(), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
	vote := encode(t, message(raftpb.MsgVote, 2, 1, 1))
	for name, said := range map[string][]byte{
		"nothing":                      nil,
		"garbage":                      []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"half a preface":               []byte(magic[:5]),
		"another version":              old,
		"a huge length":                huge,
		"a preface":                    preface(),
		"half a hello":                 hello[:len(hello)/2],
		"a hello that is changed":      append(hello[:len(hello)-3:len(hello)-3], "xyz"...),
		"no JSON":                      appendFrame(preface(), 'x', []byte("yz")),
		"no verdict":                   hello,
		"a message before the verdict": append(hello[:len(hello):len(hello)], vote...),
	} {
		before := one.Stats().Strangers
		conn := connect(t, one.address)
		_, err := conn.Write(said)
		require.NoError(t, err)
		cut(t, conn)
		eventually(t, func() bool { return one.Stats().Strangers == before+1 }, name)
	}
	require.Empty(t, one.got)
	require.Zero(t, one.Stats().Refused)
}

func TestOpeningsThatAreRefused(t *testing.T) {
	one := alone(t)
	for why, o := range map[string]opening{
		"this is node 1, but node 2 was called":                        {To: 2, For: forMessages, Hello: helloOf(3)},
		"node 7 is not a peer of node 1":                               {To: 1, For: forMessages, Hello: helloOf(7)},
		"node 1 is not a peer of node 1":                               {To: 1, For: forMessages, Hello: helloOf(1)},
		`node 1 does not serve "dance"`:                                {To: 1, For: "dance", Hello: helloOf(2)},
		`node 1 does not serve "backup"`:                               {To: 1, For: forBackup, Hello: helloOf(2)},
		"node 2 has 00000000000000000000000000000000 and this node 01": {To: 1, For: forMessages, Hello: Hello{Node: 2}},
	} {
		conn := connect(t, one.address)
		_, err := conn.Write(openingOf(t, o))
		require.NoError(t, err)
		said := cut(t, conn)
		require.Greater(t, len(said), frameHeader)
		var a answer
		require.NoError(t, json.Unmarshal(said[frameHeader:], &a))
		require.Contains(t, a.Refused, why)
		require.Equal(t, uint64(1), a.Hello.Node)
		eventually(t, func() bool { return one.log.count("a peer is refused") > 0 })
	}
	require.Equal(t, uint64(6), one.Stats().Refused)
	require.Zero(t, one.Stats().Strangers)
}

func TestTheOldestStrangerMakesRoom(t *testing.T) {
	set(t, &helloTimeout, time.Hour)
	one := alone(t)
	first := connect(t, one.address)
	eventually(t, func() bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return len(one.strangers) == 1
	})
	for range strangersMax {
		connect(t, one.address)
	}
	cut(t, first)
	eventually(t, func() bool { return one.Stats().Strangers == 1 })
	two := begin(t, 2, listener(t), map[uint64]string{1: one.address})
	require.NoError(t, one.SetPeers(map[uint64]string{2: two.address}))
	one.reaches(t, 2)
	two.reaches(t, 1)
	one.mu.Lock()
	defer one.mu.Unlock()
	require.LessOrEqual(t, len(one.strangers), strangersMax)
}

func TestAMessageThatIsNotThePeersCutsItsConnection(t *testing.T) {
	one := alone(t)
	two := caller{node: 2, hello: func() Hello { return helloOf(2) }, judge: helloOf(2).Refuse}
	broken := encode(t, message(raftpb.MsgVote, 2, 1, 1))
	broken[len(broken)-1] ^= 1
	for name, bad := range map[string][]byte{
		"of another":     encode(t, message(raftpb.MsgVote, 3, 1, 1)),
		"for another":    encode(t, message(raftpb.MsgVote, 2, 3, 1)),
		"a proposal":     encode(t, message(raftpb.MsgProp, 2, 1, 1)),
		"local":          encode(t, message(raftpb.MsgStorageAppendResp, 2, 1, 1)),
		"of no type":     encode(t, message(raftpb.MessageType(99), 2, 1, 1)),
		"no message":     appendFrame(nil, 0xff, []byte("xyz")),
		"empty":          make([]byte, frameHeader),
		"too long":       {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
		"changed on way": broken,
	} {
		before := one.Stats().Misfits
		conn, err := two.open(t.Context(), 1, one.address, forMessages, nil)
		require.NoError(t, err)
		good := encode(t, message(raftpb.MsgVote, 2, 1, 5))
		_, err = conn.Write(append(append(good, bad...), good...))
		require.NoError(t, err)
		cut(t, conn)
		require.NoError(t, conn.Close())
		require.Equal(t, uint64(5), one.take(t).GetIndex(), name)
		eventually(t, func() bool { return one.Stats().Misfits == before+1 }, name)
		require.Empty(t, one.got, name)
	}
}

func TestANewConnectionOfAPeerReplacesTheOld(t *testing.T) {
	nodes := several(t, 2)
	conn, err := nodes[2].caller.open(t.Context(), 1, nodes[1].address, forMessages, nil)
	require.NoError(t, err)
	defer conn.Close()
	select {
	case <-nodes[2].unreachable: // reported for the earlier connection
	case <-time.After(patience):
		require.Fail(t, "the old connection is kept")
	}
}

// secured returns a change of Options that gives node n the certificate pairs[n].
func secured(t testing.TB, authority *certtest.Authority, pairs map[uint64]certtest.Pair) func(*Options) {
	return func(o *Options) {
		p := pairs[o.Node]
		c, err := auth.LoadCertificates(p.CertFile, p.KeyFile, authority.File, o.Log)
		require.NoError(t, err)
		o.Security.Certificates = c
	}
}

func TestNodesWithCertificatesTalk(t *testing.T) {
	authority := certtest.NewAuthority(t)
	local := net.IPv4(127, 0, 0, 1)
	// The certificates name the node by its number, which is valid at any address, or by the host of its address.
	pairs := map[uint64]certtest.Pair{
		1: authority.Peer("one", time.Hour, "node-1"),
		2: authority.Peer("two", time.Hour, "node-2"),
		3: authority.Peer("three", time.Hour, "localhost", local),
	}
	nodes := several(t, 3, secured(t, authority, pairs))
	large := make([]byte, 24<<20)
	require.True(t, nodes[3].Send(1, []*raftpb.Message{message(raftpb.MsgApp, 3, 1, 1, large)}))
	require.Len(t, nodes[1].take(t).GetEntries()[0].GetData(), len(large))
	authority.Peer("two", time.Hour, "node-1") // replaces the file
	require.NoError(t, nodes[2].o.Security.Certificates.Reload())
	require.True(t, nodes[2].Send(1, []*raftpb.Message{message(raftpb.MsgVote, 2, 1, 1)}), "open connections stay")
	_, err := nodes[2].caller.open(t.Context(), 1, nodes[1].address, forMessages, nil)
	require.ErrorContains(t, err, "the certificate belongs to node-1, not to node-2")
}

func TestWrongCertificatesAreRefused(t *testing.T) {
	authority, foreign := certtest.NewAuthority(t), certtest.NewAuthority(t)
	one := alone(t, secured(t, authority, map[uint64]certtest.Pair{1: authority.Peer("one", time.Hour, "node-1")}))
	dial := func(pair certtest.Pair, calls uint64) error {
		c, err := auth.LoadCertificates(pair.CertFile, pair.KeyFile, authority.File, one.o.Log)
		require.NoError(t, err)
		as := caller{node: 2, hello: func() Hello { return helloOf(2) }, judge: helloOf(2).Refuse, security: Security{c}}
		conn, err := as.open(t.Context(), calls, one.address, forMessages, nil)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	require.NoError(t, dial(authority.Peer("two", time.Hour, "node-2"), 1))
	require.ErrorContains(t, dial(authority.Peer("three", time.Hour, "node-3"), 1), "belongs to node-3, not to node-2")
	require.ErrorContains(t, dial(authority.Peer("host", time.Hour, "example.com"), 1),
		"names neither node-2 nor the host of its address")
	require.ErrorContains(t, dial(authority.Peer("two", time.Hour, "node-2"), 3),
		"belongs to node-1, not to node-3", "the other side is not who was called")
	for name, pair := range map[string]certtest.Pair{
		"expired":              authority.Peer("old", -time.Minute, "node-2"),
		"of another authority": foreign.Peer("mallory", time.Hour, "node-2"),
		"not for clients":      authority.ServerOf("server", "node-2"),
	} {
		err := dial(pair, 1)
		require.ErrorContains(t, err, "tls: bad certificate", name)
		require.ErrorIs(t, err, errTrust, name)
	}
	plain := caller{node: 2, hello: func() Hello { return helloOf(2) }, judge: helloOf(2).Refuse}
	_, err := plain.open(t.Context(), 1, one.address, forMessages, nil)
	require.Error(t, err, "without TLS")
	_, err = tls.Dial("tcp", one.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	require.ErrorContains(t, err, "protocol version")
	bare, err := tls.Dial("tcp", one.address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer bare.Close()
	_, err = bare.Read(make([]byte, 1))
	require.ErrorContains(t, err, "certificate required")
	require.Empty(t, one.got)
}

func TestServersOfOtherAuthoritiesAreNotTalkedTo(t *testing.T) {
	authority, foreign := certtest.NewAuthority(t), certtest.NewAuthority(t)
	two := begin(t, 2, listener(t), nil, secured(t, foreign,
		map[uint64]certtest.Pair{2: foreign.Peer("two", time.Hour, "node-2")}))
	old := begin(t, 3, listener(t), nil, secured(t, authority,
		map[uint64]certtest.Pair{3: authority.Peer("three", -time.Minute, "node-3")}))
	client := begin(t, 4, listener(t), nil, secured(t, authority, map[uint64]certtest.Pair{4: authority.Client("four")}))
	one := alone(t, secured(t, authority, map[uint64]certtest.Pair{1: authority.Peer("one", time.Hour, "node-1")}))
	for id, n := range map[uint64]*node{2: two, 3: old, 4: client} {
		_, err := one.caller.open(t.Context(), id, n.address, forMessages, nil)
		require.ErrorIs(t, err, errTrust)
		require.ErrorContains(t, err, "x509: certificate")
	}
}

// TestAPeerThatIsNotTrustedIsWarnedOf checks that a certificate problem is logged as a warning,
// since it needs an operator, and that a peer that is down is not.
func TestAPeerThatIsNotTrustedIsWarnedOf(t *testing.T) {
	authority, foreign := certtest.NewAuthority(t), certtest.NewAuthority(t)
	two := begin(t, 2, listener(t), nil, secured(t, foreign,
		map[uint64]certtest.Pair{2: foreign.Peer("two", time.Hour, "node-2")}))
	one := alone(t, secured(t, authority, map[uint64]certtest.Pair{1: authority.Peer("one", time.Hour, "node-1")}))
	const said = `level=%s msg="a peer cannot be reached and is retried" peer=2`
	eventually(t, func() bool { return one.log.count(fmt.Sprintf(said, "INFO")) == 1 }, one.log)
	require.NoError(t, one.SetPeers(map[uint64]string{2: two.address}))
	eventually(t, func() bool { return one.log.count(fmt.Sprintf(said, "WARN")) == 1 }, one.log)
}

func TestNamesOfCertificates(t *testing.T) {
	for _, c := range []struct {
		names   []string
		ips     []net.IP
		node    uint64
		address string
		ok      bool
	}{
		{[]string{"node-1"}, nil, 1, "anywhere:7000", true},
		{[]string{"node-1"}, nil, 2, "anywhere:7000", false},
		{[]string{"node-1", "node-2", "host"}, nil, 2, "anywhere:7000", true},
		// The name of another node takes precedence over a matching host.
		{[]string{"node-1", "host"}, nil, 2, "host:7000", false},
		{[]string{"host"}, nil, 2, "host:7000", true},
		{[]string{"host"}, nil, 2, "other:7000", false},
		{[]string{"*.example.com"}, nil, 2, "b.example.com:7000", true},
		{[]string{"node-b"}, nil, 2, "node-b:7000", true}, // a host with such a name
		{[]string{"node-12"}, nil, 1, "host:7000", false},
		{nil, []net.IP{net.IPv4(192, 0, 2, 1)}, 2, "192.0.2.1:7000", true},
		{nil, []net.IP{net.IPv4(192, 0, 2, 1)}, 2, "192.0.2.2:7000", false},
		{nil, []net.IP{net.ParseIP("2001:db8::1")}, 2, "[2001:db8::1]:7000", true},
		{nil, nil, 2, "host:7000", false},
		{[]string{"host"}, nil, 2, "host", false},
		{[]string{"node-18446744073709551615"}, nil, math.MaxUint64, "host:1", true},
	} {
		err := CheckName(&x509.Certificate{DNSNames: c.names, IPAddresses: c.ips}, c.node, c.address)
		require.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
	}
}

func TestWithoutCertificatesOnlyLoopback(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:7000": true, "127.1.2.3:7000": true, "[::1]:7000": true, "localhost:7000": true,
		"[::ffff:127.0.0.1]:7000": true, "192.0.2.1:7000": false, "0.0.0.0:7000": false, "[::]:7000": false,
		":7000": false, "localhost.example.com:7000": false, "127.0.0.1.example.com:7000": false, "": false, "host": false,
	} {
		err := Security{}.RefuseOpen(map[uint64]string{1: "127.0.0.1:1", 2: address})
		require.Equal(t, ok, err == nil, address)
		if !ok {
			require.ErrorContains(t, err, "node 2")
			require.ErrorContains(t, err, `"`+address+`"`)
		}
		require.NoError(t, Security{new(auth.Certificates)}.RefuseOpen(map[uint64]string{2: address}))
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	_, err = New(Options{Node: 1, Listener: l})
	require.ErrorContains(t, err, "is not on loopback")
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
