package core

import (
	"encoding/hex"
	"fmt"
)

// String returns the identity as 32 hexadecimal digits.
func (i Identity) String() string { return hex.EncodeToString(i[:]) }

// MarshalText implements encoding.TextMarshaler. It returns the digits of String.
func (i Identity) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, i[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It returns an error, and changes nothing, if
// text is not 32 hexadecimal digits.
func (i *Identity) UnmarshalText(text []byte) error {
	var next Identity
	if len(text) != hex.EncodedLen(len(next)) {
		return fmt.Errorf("core: identity %q has %d digits instead of %d", text, len(text), hex.EncodedLen(len(next)))
	}
	if _, err := hex.Decode(next[:], text); err != nil {
		return fmt.Errorf("core: identity %q: %w", text, err)
	}
	*i = next
	return nil
}
