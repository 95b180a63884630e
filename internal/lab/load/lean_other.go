//go:build !linux

package load

import "context"

// bareConns returns nil: the lean path exists only on Linux.
func bareConns([]link) []*coded { return nil }

// lean is never called.
func (r *Recorder) lean(context.Context, []*coded, func(int) Source, *Schedule) (*Result, error) {
	panic("load: the lean client exists only on Linux")
}
