package wire

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// checkReferences returns an error if a token contains a character reference to half of a surrogate pair,
// which is not a character. encoding/xml silently replaces it by U+FFFD, but refuses all other
// characters that XML does not allow. raw is the token as it was sent.
func checkReferences(token xml.Token, raw []byte) error {
	switch token.(type) {
	case xml.StartElement:
	case xml.CharData:
		if bytes.HasPrefix(raw, []byte("<![CDATA[")) {
			return nil // CDATA contains no references
		}
	default:
		return nil
	}
	for {
		_, rest, found := bytes.Cut(raw, []byte("&#"))
		if !found {
			return nil
		}
		number, rest, _ := bytes.Cut(rest, []byte(";"))
		digits, base := number, 10
		if hex, ok := bytes.CutPrefix(number, []byte("x")); ok {
			digits, base = hex, 16
		}
		if c, err := strconv.ParseUint(string(digits), base, 32); err == nil && utf16.IsSurrogate(rune(c)) {
			return fmt.Errorf("&#%s; is not a character", clip(string(number)))
		}
		raw = rest
	}
}
