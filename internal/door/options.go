package door

import (
	"crypto/tls"
	"log/slog"
	"time"

	"outcry/internal/auth"
)

// Options are the limits and habits of a Server. The zero value of each field
// means its default.
type Options struct {
	FrameBytesMax int // largest frame; 4 MiB. While one is decoded it may take 64 times its bytes
	MemoryMax     int // bytes that large frames and replies of all connections take together; 512 MiB
	// Executions make no reply longer than ReplyBytesMax, and one that is as long answers no further query; 16 MiB.
	ReplyBytesMax  int
	ConnectionsMax int // sessions at a time, each of which takes a file descriptor; 16,384

	IdleTimeout  time.Duration // how long a client that is owed no reply may send nothing; 10 minutes
	FrameTimeout time.Duration // how long a begun frame may take to arrive; 30 seconds
	// WriteTimeout is how long a client may take none of its replies, and how much longer for a whole one than
	// at 32 KiB a second; 30 seconds.
	WriteTimeout  time.Duration
	LingerTimeout time.Duration // how long is read and discarded after the last reply; 1 second

	// What each connection has for itself. What is larger takes a part of MemoryMax.
	BatchFramesMax int // pipelined frames that are executed together; 64
	BatchMemoryMax int // memory that these take, as Codec.Memory has it; a frame of more is alone; 320 KiB

	UnsentRepliesMax int // batches whose replies wait to be sent, before a session is no longer read from; 16
	UnsentBytesMax   int // bytes of those replies; one larger reply waits alone; 64 KiB

	TLS    *tls.Config  // how connections are encrypted; nil for not at all
	Tokens *auth.Tokens // who may do what; nil if nobody has to prove anything

	View View // what accounts see of themselves; nil if nobody may

	Log     *slog.Logger // a line for each connection in trouble, none for orders; nil means no log
	Metrics *Metrics     // nil means that nobody reads them
}

func (o *Options) setDefaults() {
	setDefault(&o.FrameBytesMax, 4<<20)
	setDefault(&o.MemoryMax, 512<<20)
	setDefault(&o.ReplyBytesMax, 16<<20)
	setDefault(&o.ConnectionsMax, 16384)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.FrameTimeout, 30*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.LingerTimeout, time.Second)
	setDefault(&o.BatchFramesMax, 64)
	setDefault(&o.BatchMemoryMax, 320<<10)
	setDefault(&o.UnsentRepliesMax, 16)
	setDefault(&o.UnsentBytesMax, 64<<10)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
}

func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// Bounds that nobody needs to choose.
const (
	// RefusedMax is how many connections over the limit are told so at a time.
	// Those beyond are closed without a word.
	RefusedMax = 64

	// Of ConnectionsMax one part in othersShare, and at least one, is for others than the
	// bearers of any one token.
	othersShare = 8

	// drainGrace is how long a session of a server that shuts down still reads:
	// long enough for what the client's kernel has already delivered.
	drainGrace = 50 * time.Millisecond

	// A frame that takes more than this part of the working memory is huge.
	hugeShare = 8

	// smallFrameMax is what a frame may have that Admit takes no memory for, as over
	// TCP.
	smallFrameMax = 64 << 10

	// A reply asks for memory memoryStep at a time, and for an execution that is to
	// be in it memoryOfExecution: executionBytesMax of XML, twice while the buffer
	// grows, and 24 bytes, twice, while it is fetched from the database. A line of what an account sees of
	// itself takes up to 240 bytes of XML, and 120 before that.
	memoryStep        = 64 << 10
	memoryOfExecution = 256
	executionBytesMax = 97
	memoryOfLine      = 640

	// lateBatchesMax is how many batches of a connection wait for the history, or behind
	// one that does, before the connection is no longer read from. What they take of memory
	// is bounded for all connections together (Server.recalling).
	lateBatchesMax = 16

	// recallsMax is how many orders are fetched from the history at a time, and recallTimeout
	// how long one may take, the wait for its turn included.
	recallsMax    = 8
	recallTimeout = 5 * time.Second

	// answersMax is how many frames of other transports are executed at a time. A frame that
	// waits for memory, or whose client reads its reply slowly, is none of them.
	answersMax = 256

	// lateAnswersMax is how many of those wait for the history at a time, so that there is
	// room for what does not wait: queries beyond are told that it does not answer, and
	// frames with a ref that it is to be asked about first are refused.
	lateAnswersMax = 64

	// callsKeep is for how many requests memory of a Call is kept for the next.
	callsKeep = 64

	// lingerBytesMax bounds what is read and discarded after the last reply.
	lingerBytesMax = 64 << 20

	// writeBytesMax is what a client has WriteTimeout to take. A long reply is
	// written in such pieces, so that a slow client differs from a stuck one. For
	// each it has writePieceTime more to take the whole reply, beside WriteTimeout.
	writeBytesMax  = 64 << 10
	writePieceTime = 2 * time.Second

	// After an error of accept the next try waits acceptRetryMin, then twice as
	// long each time, up to acceptRetryMax.
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = time.Second

	// A spell of errors of accept has ended when so long none has come.
	acceptSpell = 10 * time.Second
)
