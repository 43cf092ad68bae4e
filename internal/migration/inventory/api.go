// Package inventory reads what a migration must know of a vhost from the broker's management API.
package inventory

import (
	"context"
	"errors"
)

// API is the management API of one vhost.
type API struct{ vhost string }

var errTODO = errors.New("inventory: not written yet")

// New parses an address such as http://user:password@host:15672. It asks nothing yet. The error is
// ErrConfig and never contains the address.
func New(address, vhost string) (*API, error) { return &API{vhost}, nil }

// Definition returns an exchange with all its bindings.
func (a *API) Definition(ctx context.Context, exchange string) (Definition, error) {
	return Definition{}, errTODO
}

// Delayed returns all exchanges of the vhost that are the plugin's, sorted by name.
func (a *API) Delayed(ctx context.Context) ([]Exchange, error) { return nil, errTODO }

// Nodes returns the names of the running nodes of the cluster.
func (a *API) Nodes(ctx context.Context) ([]string, error) { return nil, errTODO }
