//go:build !unix

package postgres

import (
	"context"
	"fmt"
)

type cluster struct{}

func startCluster(context.Context) (*cluster, error) {
	return nil, fmt.Errorf("postgres: %w: private clusters need Unix (set %s)", ErrNone, urlVariable)
}

func (*cluster) url() string  { return "" }
func (*cluster) close() error { return nil }
