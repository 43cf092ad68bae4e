//go:build !unix

package rabbit

import (
	"context"
	"runtime"
)

func startSpec(context.Context, nodeSpec, Options) (*Broker, error) {
	return nil, missing("private nodes need a Unix shell, which " + runtime.GOOS + " has not")
}
