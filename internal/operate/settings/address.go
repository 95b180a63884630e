package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Default ports of an exchange.
const (
	PortXML  = "12345"
	PortHTTP = "8080"
)

// Address completes an address that a user gives: HOST:PORT, or HOST alone, which gets the given default
// port. An IPv6 address must be in brackets. An empty host means all addresses for a server, and this machine
// for a client. Names are not looked up. The error says what is wrong and does not quote the address.
func Address(text, port string) (string, error) {
	host, given, hasPort := text, "", false
	switch {
	case text == "":
		return "", errors.New("must be HOST or HOST:PORT")
	case strings.Contains(text, "://"):
		return "", errors.New("must be HOST or HOST:PORT, without the scheme in front")
	case strings.ContainsAny(text, " \t\r\n/"):
		return "", errors.New("must be HOST or HOST:PORT: a host has no blanks and no slashes")
	case text[0] == '[':
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", errors.New("the bracket of the IPv6 address is not closed")
		}
		if _, err := netip.ParseAddr(text[1:end]); err != nil {
			return "", errors.New("the brackets must contain an IPv6 address")
		}
		if given, hasPort = strings.CutPrefix(text[end+1:], ":"); given != "" && !hasPort {
			return "", errors.New("only a colon and the port may follow the bracket")
		}
		host = text[1:end]
	case strings.Count(text, ":") > 1:
		return "", errors.New("an IPv6 address must be in brackets, such as [::1] or [::1]:" + port)
	default:
		host, given, hasPort = strings.Cut(text, ":")
	}
	switch {
	case hasPort && given == "":
		return "", fmt.Errorf("the port after the colon is missing; without the colon it is %s", port)
	case !hasPort && isPort(host):
		return "", fmt.Errorf("that is a port without a host: write 127.0.0.1:%s for this machine", host)
	case hasPort:
		port = given
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port[0] == '+' || port[0] == '-' {
		return "", errors.New("the port must be from 0 to 65535, or the name of a service")
	}
	return net.JoinHostPort(host, port), nil
}

// isPort reports whether a text is a port number, which a host cannot be.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
