//go:build unix

package rabbit

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLeadersAreReadFromRabbitmqctl(t *testing.T) {
	c := &Cluster{names: []string{"a@localhost", "b@localhost"}}
	got := c.parseLeaders("7\tb@localhost\torders\n\t\tno leader\n0\tother@host\tfar\nnot a row\n")
	assert.Equal(t, []Leader{{"orders", 7, 1}, {"no leader", 0, -1}, {"far", 0, -1}}, got)
}
