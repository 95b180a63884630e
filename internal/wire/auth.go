package wire

import "strings"

// DecodeAuth returns the token of a frame <auth token="T"/>, by which a client proves
// who it is where the exchange asks for that. ok is false for every other frame.
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

// authorized is the reply to a token that is taken.
const authorized = "<results><authorized/></results>"

// AppendAuthorized appends the reply to a token that is taken and returns it.
func AppendAuthorized(dst []byte) []byte { return append(dst, authorized...) }

// IsAuthorized tells whether a reply says that a token is taken.
func IsAuthorized(reply []byte) bool { return strings.TrimSpace(string(reply)) == authorized }
