package exchange

import "strings"

// DigestListing names the listing that Digest is of. Digests of different listings
// say nothing about each other.
func DigestListing() string { return strings.TrimSpace(digestVersion) }
