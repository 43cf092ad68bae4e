package broker

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnectionName(t *testing.T) {
	name := connectionName("delayer shop publish", func() (string, error) { return "web1", nil })
	require.Regexp(t, `^delayer shop publish, web1 broker\.test\[\d+\]$`, name)
	name = connectionName("delayer shop publish", func() (string, error) { return "", errors.New("unknown") })
	require.Regexp(t, `^delayer shop publish, \? broker`, name)
}
