// Package memlimit computes how much memory is available to the exchange, how much of it the exchange may use,
// and how much its bounds need together.
package memlimit

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Memory that the exchange needs for each of these, in bytes, in the worst case, as measured by tests of
// package engine (BenchmarkMemory, and the test of symbols at rest).
const (
	OrderBytes   = 280  // an open order that is alone at its price and far from other orders
	AccountBytes = 160  // an account with an id of 7 digits
	SymbolBytes  = 2048 // a symbol with a few positions and its market data
)

// The part of the available memory that the exchange uses by default: 4/5.
const partNumerator, partDenominator = 4, 5

// LimitMin is the smallest limit.
const LimitMin = 64 << 20

// Limit is how much memory the exchange may use: a number of bytes, 0 for no limit, or by default 4/5 of the
// available memory (the zero value, "auto").
type Limit struct {
	bytes int64
	given bool
}

// auto is the text of a limit that depends on the available memory.
const auto = "auto"

// UnmarshalText parses "auto", "off", or a size as ParseBytes does. The error says what a limit may be.
func (l *Limit) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case auto:
		*l = Limit{}
	case "off", "0":
		*l = Limit{given: true}
	default:
		n, err := ParseBytes(s)
		if err != nil || n < LimitMin || n > 1<<50 {
			return fmt.Errorf("must be %s, off, or from %d to %d bytes, such as 2GiB", auto, LimitMin, int64(1)<<50)
		}
		*l = Limit{bytes: n, given: true}
	}
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (l Limit) MarshalText() ([]byte, error) {
	switch {
	case !l.given:
		return []byte(auto), nil
	case l.bytes == 0:
		return []byte("off"), nil
	}
	return strconv.AppendInt(nil, l.bytes, 10), nil
}

// Bytes returns the limit, 0 for none, and where it comes from. read reads files of /proc and /sys.
func (l Limit) Bytes(read func(string) ([]byte, error)) (bytes int64, of string) {
	if l.given {
		return l.bytes, "--memory-limit"
	}
	there, of, err := Available(read)
	if err != nil {
		return 0, ""
	}
	of = fmt.Sprintf("%d/%d of the memory %s", partNumerator, partDenominator, of)
	return int64(there / partDenominator * partNumerator), of
}

// Available returns how many bytes of memory are available, and what limits them: the lowest of the machine's
// memory and the limits of the control group and those above it. The error says that the machine's memory is
// unknown.
func Available(read func(string) ([]byte, error)) (bytes uint64, of string, err error) {
	text, err := read("/proc/meminfo")
	if err != nil {
		return 0, "", err
	}
	var kib uint64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0, "", fmt.Errorf("/proc/meminfo: %w", err)
	}
	if kib == 0 {
		return 0, "", errors.New("/proc/meminfo: no memory")
	}
	bytes, of = kib<<10, "of the machine"
	texts := append(ControlGroup(read, "memory.max"), controlGroup1(read, "memory", "memory.limit_in_bytes")...)
	for _, text := range texts {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && n < bytes { // "max" means no limit
			bytes, of = n, "of the control group"
		}
	}
	return bytes, of, nil
}

// ControlGroup returns the contents of the file with this name in the process's control group (version 2) and
// in those above it.
func ControlGroup(read func(string) ([]byte, error), name string) []string {
	group := "/"
	for _, line := range groups(read) {
		if after, ok := strings.CutPrefix(line, "0::"); ok {
			group = after
		}
	}
	return upwards(read, "/sys/fs/cgroup", group, name)
}

// controlGroup1 is ControlGroup for version 1, in which each controller has its own groups. In a container the path is
// that of the host, and the group's files are at the root.
func controlGroup1(read func(string) ([]byte, error), controller, name string) []string {
	for _, line := range groups(read) {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			return upwards(read, "/sys/fs/cgroup/"+controller, fields[2], name)
		}
	}
	return upwards(read, "/sys/fs/cgroup/"+controller, "/", name)
}

func groups(read func(string) ([]byte, error)) []string {
	text, _ := read("/proc/self/cgroup") // without it, the root group counts
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func upwards(read func(string) ([]byte, error), root, group, name string) (all []string) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		if text, err := read(path.Join(root, at, name)); err == nil {
			all = append(all, strings.TrimSpace(string(text)))
		}
		if at == "/" {
			return all
		}
	}
}

// Needs are the bounds that determine how much memory the exchange needs.
type Needs struct {
	OpenOrders, Accounts, Symbols int
	// bytes of large frames and replies; the garbage collector needs as much again
	Large int64
}

// Bytes returns the memory that is needed if all bounds are reached.
func (n Needs) Bytes() int64 {
	return int64(n.OpenOrders)*OrderBytes + int64(n.Accounts)*AccountBytes + int64(n.Symbols)*SymbolBytes + 2*n.Large
}

// Excess returns a line that says by how much the sum of the bounds exceeds a limit, or "" if it does not or there is
// no limit.
func (n Needs) Excess(limit int64, of string) string {
	if limit == 0 || n.Bytes() <= limit {
		return ""
	}
	return fmt.Sprintf("--max-open-orders %d, --max-accounts %d, --max-symbols %d and twice --max-memory %d "+
		"need %d MiB together, and %s is %d MiB: lower them, or increase it",
		n.OpenOrders, n.Accounts, n.Symbols, n.Large, n.Bytes()>>20, of, limit>>20)
}
