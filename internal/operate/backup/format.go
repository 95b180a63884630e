package backup

import (
	"encoding/hex"
	"fmt"
	"time"

	"outcry/internal/postgres"
)

const (
	magic         = "OUTCRYBK"
	formatVersion = 1
	prefixBytes   = 16
	headBytes     = 20 // size of a block's head, which precedes the stored content

	// contentBytesMax bounds the content of a block, except one with a file.
	contentBytesMax = 1 << 20

	// fileBytesMax bounds a small file. It is also the limit of the server's file of tokens.
	fileBytesMax = 8 << 20
)

// kind is the kind of a block's content.
type kind byte

const (
	kindHeader  kind = 'H'
	kindTable   kind = 'T'
	kindRows    kind = 'R'
	kindEnd     kind = 'E'
	kindFile    kind = 'F'
	kindTrailer kind = 'Z'
)

// contentMax bounds the content of a block. The block of a file has the file's name and its bytes in base64.
func (k kind) contentMax() int {
	if k == kindFile {
		return (fileBytesMax+2)/3*4 + 1<<10
	}
	return contentBytesMax
}

// storedMax bounds the stored content of a block: DEFLATE adds 5 bytes for each 64 KiB that it cannot
// compress.
func (k kind) storedMax() int { return k.contentMax() + k.contentMax()>>10 }

// String returns the name of the kind, for messages.
func (k kind) String() string {
	switch k {
	case kindHeader:
		return "header"
	case kindTable:
		return "table"
	case kindRows:
		return "rows"
	case kindEnd:
		return "end of a table"
	case kindFile:
		return "file"
	case kindTrailer:
		return "trailer"
	}
	return fmt.Sprintf("unknown (0x%02x)", byte(k))
}

// Header describes a backup. It is the first block of the file.
type Header struct {
	Program  string    `json:"program"`  // version of the program that wrote it
	Postgres string    `json:"postgres"` // version of the database
	Begun    time.Time `json:"begun"`    // when Take was called
	// when the snapshot was taken, by the clock of the machine that took the backup
	Taken time.Time `json:"taken"`

	Journal hexID  `json:"journal"` // id of the original's journal
	Seq     uint64 `json:"seq"`     // the last record that the state includes
	Ack     string `json:"ack"`     // what the original's replies waited for (--ack)
	Epoch   uint64 `json:"epoch"`   // epoch of the original's database
	Schema  int    `json:"schema"`  // version of the tables

	// Digest is the digest of the state at Seq. Listing identifies the method that computes it.
	Digest  hexDigest `json:"digest"`
	Listing string    `json:"listing"`

	// WithoutJournal is set if the backup was taken without the journal, so that it may lack records that
	// were answered before it began.
	WithoutJournal bool `json:"without_journal,omitempty"`
}

// Table begins the rows of a table.
type Table = postgres.Table

// TableEnd ends the rows of a table.
type TableEnd struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"` // size of the rows as text
}

// File is a small file of the data directory.
type File struct {
	Name    string `json:"name"` // its base name
	Content []byte `json:"content"`
}

// Trailer ends a complete backup. It is the last block of the file.
type Trailer struct {
	Ended  time.Time  `json:"ended"`
	Tables []TableEnd `json:"tables"`
	Files  []string   `json:"files"`
	SHA256 hexDigest  `json:"sha256"` // hash of all bytes before the trailer's block
}

// hexID and hexDigest are encoded as hexadecimal digits.
type (
	hexID     [16]byte
	hexDigest [32]byte
)

// MarshalText implements encoding.TextMarshaler.
func (h hexID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexID) UnmarshalText(text []byte) error { return unhex(h[:], text) }

// String returns the digits.
func (h hexID) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h hexDigest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hexDigest) UnmarshalText(text []byte) error { return unhex(h[:], text) }

// String returns the digits.
func (h hexDigest) String() string { return hex.EncodeToString(h[:]) }

// unhex decodes text into dst. It returns an error unless the text has exactly the digits to fill dst.
func unhex(dst, text []byte) error {
	if len(text) != hex.EncodedLen(len(dst)) {
		return fmt.Errorf("%q has %d digits instead of %d", text, len(text), hex.EncodedLen(len(dst)))
	}
	_, err := hex.Decode(dst, text)
	return err
}

// DamageError means that a file is damaged or is not a complete backup.
type DamageError struct {
	Offset  int64  // offset in the file, in bytes, of the damaged block
	Section string // the part of the backup at this offset, for people
	Reason  string
}

// Error names the offset, the section and the reason.
func (e *DamageError) Error() string {
	return fmt.Sprintf("the backup is damaged at offset %d, in the %s: %s", e.Offset, e.Section, e.Reason)
}
