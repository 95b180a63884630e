package auth

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"outcry/internal/journal/durable"
)

// Issued is a token that its caller stores before it is added to a file.
type Issued struct {
	Token string // made by NewToken
	Scope Scope
	Note  string // a remark for people, such as the name of the user
}

// NewToken creates a random token without storing it.
func NewToken() string {
	token, _ := newToken()
	return token
}

// AddAll adds tokens that never expire to the file of the data directory dir, all of them in one step. If the file
// already has any of them, it is left unchanged. AddAll returns how many of the tokens the file has afterwards. The
// error says that a token is malformed, or has the form of Add's tokens; the file is then unchanged, unless only the
// sync of the directory failed.
func AddAll(dir string, tokens []Issued) (has int, err error) {
	created := time.Now().Truncate(time.Second).UTC()
	var more []Entry
	known := make(map[[sha256.Size]byte]bool, len(tokens))
	for _, t := range tokens {
		e := Entry{Hash: sha256.Sum256([]byte(t.Token)), Scope: t.Scope, Created: created, Note: t.Note}
		if e.ID, err = splitToken(t.Token); err == nil {
			err = checkNote(t.Note)
		}
		if err != nil {
			return 0, err
		}
		more, known[e.Hash] = append(more, e), true
	}
	if err := durable.MakeDir(dir); err != nil {
		return 0, fmt.Errorf("auth: %w", err)
	}
	return has, kindTokens.edit(dir, func(all []Entry) ([]Entry, error) {
		for _, e := range all {
			if known[e.Hash] {
				has++
			}
		}
		switch {
		case has > 0:
			return all, nil
		case len(all)+len(more) > entriesMax:
			return nil, fmt.Errorf("there are %d tokens, and with %d more there would be more than %d: revoke some", len(all),
				len(more), entriesMax)
		}
		has = len(more)
		return append(all, more...), nil
	})
}

// RevokeAll removes tokens from the file of a data directory, in one step. Tokens that are not in the file
// are ignored. After an error the file is unchanged, unless only the sync of the directory failed.
func RevokeAll(dir string, tokens []Issued) error {
	return kindTokens.edit(dir, func(all []Entry) ([]Entry, error) {
		gone := make(map[[sha256.Size]byte]bool, len(tokens))
		for _, t := range tokens {
			gone[sha256.Sum256([]byte(t.Token))] = true
		}
		return slices.DeleteFunc(all, func(e Entry) bool { return gone[e.Hash] }), nil
	})
}
