package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"outcry/internal/operate/remote"
)

// Members changes the members of a cluster. Only the leading node can do it. An error says what is impossible, and then
// nothing has changed, or that ctx has ended, or it wraps remote.ErrNotLeading.
type Members interface {
	// Transfer moves the leadership to a node, or to the most up-to-date standby if node is 0.
	Transfer(ctx context.Context, node uint64) error
	// Add adds a node as a learner. address is where the other nodes reach it.
	Add(ctx context.Context, node uint64, address string) error
	// Promote makes a learner that is nearly up to date a voter.
	Promote(ctx context.Context, node uint64) error
	// Remove removes a node permanently.
	Remove(ctx context.Context, node uint64) error
	// Replace removes and then adds a node that has lost its disk. An empty address means its previous address.
	Replace(ctx context.Context, node uint64, address string) error
}

// changeBytesMax bounds the body of a change.
const changeBytesMax = 4 << 10

// registerChanges adds the paths below /admin/cluster/.
func (o *Options) registerChanges(mux *routes) {
	for what, do := range map[string]func(ctx context.Context, c remote.ClusterChange) error{
		remote.ChangeTransfer: func(ctx context.Context, c remote.ClusterChange) error {
			return o.Members.Transfer(ctx, c.Node)
		},
		remote.ChangeAdd: func(ctx context.Context, c remote.ClusterChange) error {
			return o.Members.Add(ctx, c.Node, c.Address)
		},
		remote.ChangePromote: func(ctx context.Context, c remote.ClusterChange) error {
			return o.Members.Promote(ctx, c.Node)
		},
		remote.ChangeRemove: func(ctx context.Context, c remote.ClusterChange) error {
			return o.Members.Remove(ctx, c.Node)
		},
		remote.ChangeReplace: func(ctx context.Context, c remote.ClusterChange) error {
			return o.Members.Replace(ctx, c.Node, c.Address)
		},
	} {
		mux.HandleFunc("POST /admin/cluster/"+what, o.change(what, do))
	}
}

// change returns a handler for one kind of change. On a standby, the answer names the leader.
func (o *Options) change(what string, do func(context.Context, remote.ClusterChange) error) http.HandlerFunc {
	return o.operation(func(r *http.Request, _ url.Values) (any, error) {
		c, err := readChange(r.Body)
		if err == nil && c.Node == 0 && what != remote.ChangeTransfer {
			err = badRequest("node 0: nodes are numbered from 1")
		}
		if err != nil {
			return nil, err
		}
		err = do(r.Context(), c)
		switch {
		case errors.Is(err, remote.ErrNotLeading):
			return nil, &refused{http.StatusServiceUnavailable, err.Error()}
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			return nil, err
		case err != nil:
			return nil, &refused{http.StatusConflict, err.Error()}
		}
		o.Log.Warn("the cluster is changed", "change", what, "node", c.Node, "address", c.Address, who(r))
		return remote.ClusterChanged{Change: what, ClusterChange: c}, nil
	})
}

// readChange reads the body of a change.
func readChange(body io.Reader) (c remote.ClusterChange, err error) {
	d := json.NewDecoder(io.LimitReader(body, changeBytesMax))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, badRequest("the change cannot be read: %v", err)
	}
	if d.More() {
		return c, badRequest("there is more input after the change")
	}
	return c, nil
}
