package wire

import "strings"

// DecodeAuth returns the token of a frame <auth token="T"/>, by which a client proves
// who it is if the exchange asks for that. ok is false for every other frame.
func DecodeAuth(frame []byte) (token string, ok bool) {
	root, err := parseDocument(frame, 1)
	if err != nil || root.name != "auth" || onlyAttributes(root, "token") != nil || noContent(root) != nil {
		return "", false
	}
	return root.attr("token")
}

// AppendAuth appends the XML of a frame that shows a token and returns it.
func AppendAuth(dst []byte, token string) []byte {
	dst = appendAttr(append(dst, "<auth"...), "token", token)
	return append(dst, "/>"...)
}

// TextUnauthorized is the error that everybody gets who shows no token that is taken,
// whatever is wrong with it. Clients tell it by its text, and no other error that comes
// in its place is about the token: those pass by themselves.
const TextUnauthorized = `this exchange takes <auth token="…"/> as the first frame, with a token that is known ` +
	`and has not ended`

// TextNeedsTLS is the last reply, not encrypted, to a client that speaks no TLS where the exchange does. Clients
// tell it by its text.
const TextNeedsTLS = "this port speaks TLS; connect again with it"

// textUnknownAuth begins the error of an exchange that asks for no token.
const textUnknownAuth = "unknown root element <auth>"

// IsUnauthorized reports whether the text of an error that answers <auth> is about the
// token, or about <auth> itself, so that another try would end alike. The number of the
// connection may follow.
func IsUnauthorized(text string) bool {
	return strings.HasPrefix(text, TextUnauthorized) || strings.HasPrefix(text, textUnknownAuth)
}

// authorized is the reply to a token that is taken.
const authorized = "<results><authorized/></results>"

// AppendAuthorized appends the reply to a token that is taken and returns it.
func AppendAuthorized(dst []byte) []byte { return append(dst, authorized...) }

// IsAuthorized reports whether a reply says that a token is taken.
func IsAuthorized(reply []byte) bool { return strings.TrimSpace(string(reply)) == authorized }
