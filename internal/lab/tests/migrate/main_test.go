// Package migrate_test tests each step of `delayer migrate` on a real broker with the plugin.
package migrate_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	managementapi "github.com/delayer-go/delayer/internal/lib/management"
)

// managementPlugin gives the broker its management API.
const managementPlugin = "rabbitmq_management"

func TestMain(m *testing.M) {
	rabbittest.Main(m, rabbit.Options{Plugins: []string{rabbittest.DelayedMessages, managementPlugin}})
}

// needPlugin returns the package's broker if it has the plugin, and skips the test by name
// otherwise.
func needPlugin(t testing.TB) *rabbit.Broker {
	t.Helper()
	return rabbittest.NeedPlugin(t, rabbittest.DelayedMessages)
}

// management is the address of the broker's management API, with credentials. Without one the test
// is skipped.
func management(t testing.TB, b *rabbit.Broker) string {
	t.Helper()
	address := b.Management()
	if address == "" {
		rabbittest.Skipf(t, "the broker has no management API that is known")
	}
	return address
}

// inventoryOf is the management API at an address, as the steps have it.
func inventoryOf(t testing.TB, address, vhost string) *inventory.API {
	t.Helper()
	const noTimeout = 0
	client, err := managementapi.New(address, noTimeout, &http.Transport{DisableKeepAlives: true})
	require.NoError(t, err)
	return inventory.New(client, vhost)
}

// rabbitmqctl is a command line that evaluates programs on the broker's node, as --rabbitmqctl
// takes it. It stands for rabbitmqctl, which takes a hundred times as long. Without one the test is
// skipped.
func rabbitmqctl(t testing.TB, b *rabbit.Broker) string {
	t.Helper()
	command := b.EvalCommand()
	if command == "" {
		rabbittest.Skipf(t, "no rabbitmqctl runs for the broker")
	}
	return command
}
