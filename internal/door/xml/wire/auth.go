package wire

import "strings"

// DecodeAuth returns the token of a frame <auth token="T"/>, with which a client authenticates. ok is
// false for every other frame.
func DecodeAuth(frame []byte) (token string, ok bool) {
	root, err := parseDocument(frame, 1)
	if err != nil || root.name != "auth" || onlyAttributes(root, "token") != nil || noContent(root) != nil {
		return "", false
	}
	return root.attr("token")
}

// AppendAuth appends the XML of an <auth> frame with a token and returns it.
func AppendAuth(dst []byte, token string) []byte {
	dst = appendAttr(append(dst, "<auth"...), "token", token)
	return append(dst, "/>"...)
}

// TextUnauthorized is the error text for a client that presented no valid token, whatever is wrong with
// the token. Clients recognize the error by this text. Any other error in its place is not about the
// token and is temporary.
const TextUnauthorized = `this exchange takes <auth token="…"/> as the first frame, with a token that is known ` +
	`and has not ended`

// TextNeedsTLS is the last reply, sent unencrypted, to a client that does not speak TLS on a port that
// requires it. Clients recognize it by this text.
const TextNeedsTLS = "this port speaks TLS; connect again with it"

// textUnknownAuth is the beginning of the error with which an exchange without authentication answers <auth>.
const textUnknownAuth = "unknown root element <auth>"

// IsUnauthorized reports whether an error text in reply to <auth> is about the token, or about <auth>
// itself, so that retrying is pointless. The text may end with the number of the connection.
func IsUnauthorized(text string) bool {
	return strings.HasPrefix(text, TextUnauthorized) || strings.HasPrefix(text, textUnknownAuth)
}

// authorized is the reply to a valid token.
const authorized = "<results><authorized/></results>"

// AppendAuthorized appends the reply to a valid token and returns it.
func AppendAuthorized(dst []byte) []byte { return append(dst, authorized...) }

// IsAuthorized reports whether a reply says that the token is valid.
func IsAuthorized(reply []byte) bool { return strings.TrimSpace(string(reply)) == authorized }
