package auth

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"outcry/internal/journal/durable"
)

// Issued is a token that callers keep before a file knows it.
type Issued struct {
	Token string // of NewToken
	Scope Scope
	Note  string // whose it is, for people
}

// NewToken draws a token that no file knows yet.
func NewToken() string {
	token, _ := newToken()
	return token
}

// AddAll writes what the file of the data directory dir says of several tokens, which never expire:
// all of them in one step. If the file has one of them already it stays as it is. has is how many of
// them it has then. The error says that a token is malformed, and otherwise is that of Add; after it
// the file is as it was.
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
			return nil, fmt.Errorf("there are %d tokens, and with %d more there would be over %d: revoke some", len(all),
				len(more), entriesMax)
		}
		has = len(more)
		return append(all, more...), nil
	})
}

// RevokeAll takes tokens out of the file of a data directory, in one step; those that it does not have
// change nothing. After an error the file is as it was, unless only the sync of the directory failed.
func RevokeAll(dir string, tokens []Issued) error {
	return kindTokens.edit(dir, func(all []Entry) ([]Entry, error) {
		gone := make(map[[sha256.Size]byte]bool, len(tokens))
		for _, t := range tokens {
			gone[sha256.Sum256([]byte(t.Token))] = true
		}
		return slices.DeleteFunc(all, func(e Entry) bool { return gone[e.Hash] }), nil
	})
}
