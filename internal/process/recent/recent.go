// Package recent remembers the values of names that were used recently, so that most names need not be looked up in a
// map.
package recent

import "unsafe"

// bits is the binary logarithm of how many names are remembered.
const bits = 12

// Values remembers values by name. A name has one place, which its address in memory determines: it is meant for names
// that mostly are the same string, not only equal ones. The zero value remembers nothing. Not safe for concurrent use.
type Values[N ~string, V any] struct {
	at [1 << bits]struct {
		name  N
		value V
	}
}

// Find returns the value of a name. ok is false if it is not remembered.
func (r *Values[N, V]) Find(name N) (value V, ok bool) {
	at := &r.at[place(string(name))]
	return at.value, at.name == name && name != ""
}

// Keep remembers the value of a name, which must not be empty, in place of another one.
func (r *Values[N, V]) Keep(name N, value V) {
	at := &r.at[place(string(name))]
	at.name, at.value = name, value
}

// place returns the place of a name. A name that is remembered is compared byte by byte, so any place would be correct.
func place(name string) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.StringData(name)))) * 0x9E3779B97F4A7C15 >> (64 - bits)
}
