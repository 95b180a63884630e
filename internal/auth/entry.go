package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Parts of a token. The id and the secret are written in lower-case hexadecimal digits.
const (
	tokenPrefix = "outc_"
	idDigits    = 16
	secretBytes = 32
	tokenLen    = len(tokenPrefix) + idDigits + len("_") + 2*secretBytes
)

// Limits of the file.
const (
	fileBytesMax = 8 << 20
	entriesMax   = 10_000
	noteCharsMax = 200
)

// kind is the first line of a file, and says what the file holds. A different number means a different format. Both
// kinds have the same format, except that a key's line has the secret, and a token's line a hash.
type kind string

const (
	kindTokens kind = "outcry tokens 1"
	kindKeys   kind = "outcry keys 1"

	header = string(kindTokens)
)

// errMalformed means that a text is not a token. It does not quote the text.
var errMalformed = errors.New("not a token")

// Entry is the line of a token or a key in its file.
type Entry struct {
	ID      string            // the public part
	Hash    [sha256.Size]byte // SHA-256 of a token; for a key, its secret
	Scope   Scope
	Created time.Time
	Expires time.Time // zero if it never expires
	Note    string    // a remark for people, such as the name of the user
}

// newToken makes a random token. Its entry has only the id and the hash.
func newToken() (token string, e Entry) {
	var random [idDigits/2 + secretBytes]byte
	_, _ = rand.Read(random[:]) // never returns an error
	digits := hex.EncodeToString(random[:])
	e.ID = digits[:idDigits]
	token = tokenPrefix + e.ID + "_" + digits[idDigits:]
	e.Hash = sha256.Sum256([]byte(token))
	return token, e
}

// splitToken returns the id of a token. The error is errMalformed.
func splitToken(token string) (id string, err error) {
	if len(token) != tokenLen || token[:len(tokenPrefix)] != tokenPrefix {
		return "", errMalformed
	}
	id, secret := token[len(tokenPrefix):][:idDigits], token[tokenLen-2*secretBytes:]
	if !isHex(id) || token[len(tokenPrefix)+idDigits] != '_' || !isHex(secret) {
		return "", errMalformed
	}
	return id, nil
}

// isHex reports whether s consists of lower-case hexadecimal digits.
func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// parseFile reads the content of a file of tokens. The error names the line.
func parseFile(file []byte) ([]Entry, error) { return kindTokens.parse(file) }

// parse reads the content of a file of tokens or keys. The error names the line.
func (k kind) parse(file []byte) ([]Entry, error) {
	if len(file) > fileBytesMax {
		return nil, fmt.Errorf("the file has more than %d bytes", fileBytesMax)
	}
	first, rest, _ := bytes.Cut(file, []byte("\n"))
	if string(first) != string(k) {
		return nil, fmt.Errorf("line 1: %.40q is not %q", first, string(k))
	}
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		return nil, errors.New("the last line does not end with a line feed")
	}
	var all []Entry
	seen := make(map[string]bool)
	number := 1
	for line := range strings.Lines(string(rest)) {
		number++
		e, err := parseEntry(strings.TrimSuffix(line, "\n"))
		if _, one := e.Scope.Account(); err == nil && k == kindKeys && !one {
			err = fmt.Errorf("scope %.100q is not one account", e.Scope)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		case seen[e.ID]:
			return nil, fmt.Errorf("line %d: token %s appears twice", number, e.ID)
		case len(all) == entriesMax:
			return nil, fmt.Errorf("there are more than %d tokens", entriesMax)
		}
		seen[e.ID] = true
		all = append(all, e)
	}
	return all, nil
}

// parseEntry reads a line: id, hash, scope, created, expires and note, separated by tabs.
func parseEntry(line string) (e Entry, err error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 6 {
		return e, fmt.Errorf("%d fields, not 6", len(fields))
	}
	e.ID = fields[0]
	if len(e.ID) != idDigits || !isHex(e.ID) {
		return e, fmt.Errorf("%.40q is not the id of a token", e.ID)
	}
	if len(fields[1]) != 2*len(e.Hash) || !isHex(fields[1]) {
		return e, errors.New("the hash is not 64 hexadecimal digits")
	}
	_, _ = hex.Decode(e.Hash[:], []byte(fields[1])) // cannot fail: both are checked to be digits
	if e.Scope, err = ParseScope(fields[2]); err != nil {
		return e, err
	}
	if e.Created, err = time.Parse(time.RFC3339, fields[3]); err != nil {
		return e, fmt.Errorf("created: %.40q is not a time", fields[3])
	}
	if fields[4] != never {
		if e.Expires, err = time.Parse(time.RFC3339, fields[4]); err != nil || e.Expires.IsZero() {
			return e, fmt.Errorf("expires: %.40q is neither a time nor %q", fields[4], never)
		}
	}
	e.Note = fields[5]
	return e, checkNote(e.Note)
}

// never is the text in the file for a token that does not expire.
const never = "-"

// appendFile appends the content of a file with the given entries.
func (k kind) appendFile(dst []byte, all []Entry) []byte {
	dst = append(append(dst, k...), '\n')
	for i := range all {
		e := &all[i]
		expires := never
		if !e.Expires.IsZero() {
			expires = e.Expires.UTC().Format(time.RFC3339)
		}
		dst = fmt.Appendf(dst, "%s\t%x\t%s\t%s\t%s\t%s\n", e.ID, e.Hash, e.Scope, e.Created.UTC().Format(time.RFC3339),
			expires, e.Note)
	}
	return dst
}

// checkNote returns an error if a note is too long or has characters that cannot be printed.
func checkNote(note string) error {
	if utf8.RuneCountInString(note) > noteCharsMax {
		return fmt.Errorf("the note has %d characters, the limit is %d", utf8.RuneCountInString(note), noteCharsMax)
	}
	if !utf8.ValidString(note) || strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("note %.100q has a character that cannot be printed", note)
	}
	return nil
}
