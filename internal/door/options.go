package door

import (
	"crypto/tls"
	"log/slog"
	"time"

	"outcry/internal/auth"
)

// Options are the limits and settings of a Server. A field with the zero value has its default, which its
// comment names last.
type Options struct {
	FrameBytesMax int // largest frame in bytes; to decode one may need 64 times as much memory; 4 MiB
	MemoryMax     int // bytes of memory for the large frames and replies of all connections together; 512 MiB
	// ReplyBytesMax bounds a reply in bytes: executions that do not fit are left out, or their query is refused, and
	// once a reply has reached it, further queries of the frame are refused; 16 MiB.
	ReplyBytesMax  int
	ConnectionsMax int // sessions at a time, each of which needs a file descriptor; 16,384

	IdleTimeout  time.Duration // how long a client with no reply outstanding may send nothing; 10 minutes
	FrameTimeout time.Duration // how long a frame may take to arrive, from its first byte; 30 seconds
	// WriteTimeout is how long a client may read nothing of its replies. A whole reply may take WriteTimeout
	// plus the time that it needs at 32 KiB a second; 30 seconds.
	WriteTimeout  time.Duration
	LingerTimeout time.Duration // how long the server reads and discards after the last reply; 1 second

	// The limits below apply to each connection. Frames and replies above them use a part of MemoryMax.
	BatchFramesMax int // pipelined frames that are executed together; 64
	BatchMemoryMax int // memory of these frames (Codec.Memory); a frame with more is executed alone; 320 KiB

	UnsentRepliesMax int // batches with unsent replies before the session stops reading; 16
	// bytes of unsent replies before the session stops reading; one larger reply waits alone; 64 KiB
	UnsentBytesMax int

	TLS    *tls.Config  // how connections are encrypted; nil for plain TCP
	Tokens *auth.Tokens // the tokens that clients must present; nil if none is required

	View View // answers queries about accounts; nil rejects these queries
	// Followers are the followers of the journal that clients wait for. A client that gives them too much work is slowed
	// down.
	Followers []Follower

	Log     *slog.Logger // gets a line for each connection with a problem, none for orders; nil for no log
	Metrics *Metrics     // nil for metrics that are not exported
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

// Limits are those Options that may be changed while a Server runs.
type Limits struct {
	ConnectionsMax int
	IdleTimeout    time.Duration
	FrameTimeout   time.Duration
	WriteTimeout   time.Duration
}

// Bounds that are not configurable.
const (
	// RefusedMax is the number of connections over the limit that get an error message at the same time.
	// Further ones are closed without a message.
	RefusedMax = 64

	// One in othersShare of the ConnectionsMax places, at least one, is never given to bearers of one and the
	// same token, so that others find a place.
	othersShare = 8

	// drainGrace is how long a session still reads after the server has begun to shut down: long enough for
	// data that the kernel has already received.
	drainGrace = 50 * time.Millisecond

	// A frame that needs more than one hugeShare-th of the working memory uses the pool huge.
	hugeShare = 8

	// smallFrameMax is the largest frame in bytes for which Admit reserves no memory, as over TCP.
	smallFrameMax = 64 << 10

	// A reply reserves memory in steps of memoryStep. It reserves memoryOfExecution for each execution: twice
	// executionBytesMax of XML, because the buffer may be copied when it grows, and twice 24 bytes while the
	// execution is fetched from the database. A line of an account's view has up to 240 bytes of XML, and 168
	// before it is encoded.
	memoryStep        = 64 << 10
	memoryOfExecution = 256
	executionBytesMax = 97
	memoryOfLine      = 656

	// lateBatchesMax is how many batches of a connection may wait in the queue of answerLate before the
	// connection is no longer read. Their memory is bounded for all connections together (Server.recalling).
	lateBatchesMax = 16

	// recallsMax is how many orders are fetched from the history at the same time. recallTimeout bounds one
	// fetch, including the wait for a slot.
	recallsMax    = 8
	recallTimeout = 5 * time.Second

	// answersMax is how many frames of other transports are executed at the same time. Frames that wait for
	// memory, and frames whose client reads the reply slowly, do not count.
	answersMax = 256

	// lateAnswersMax is how many of these frames may wait for the history at the same time, so that places remain
	// for frames that need not wait. Above it, the answer to queries is that the history is unavailable, and frames
	// with a ref that has to be looked up in the history are refused.
	lateAnswersMax = 64

	// callsKeep is the largest Call, in requests, whose memory is kept for the next one.
	callsKeep = 64

	// lingerBytesMax bounds how much is read and discarded after the last reply.
	lingerBytesMax = 64 << 20

	// A client has WriteTimeout to read each writeBytesMax of a reply. Long replies are written in such
	// pieces to distinguish a slow client from a stuck one. The whole reply may take WriteTimeout plus
	// writePieceTime for each piece.
	writeBytesMax  = 64 << 10
	writePieceTime = 2 * time.Second

	// After an error of accept, the next attempt waits acceptRetryMin, then twice as long each time, up to
	// acceptRetryMax.
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = time.Second

	// acceptSpell is the time without an error of accept after which the next error is logged again.
	acceptSpell = 10 * time.Second
)
