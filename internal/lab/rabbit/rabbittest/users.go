package rabbittest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// User makes a user of the virtual host of an address, and returns that address with the user, whose
// password would break a careless URL or log.
func User(t testing.TB, b *rabbit.Broker, address, configure, write, read string) string {
	t.Helper()
	if !b.Owned() {
		Skipf(t, "needs rabbitmqctl to make a user")
	}
	u, err := url.Parse(address)
	require.NoError(t, err)
	at, err := amqp091.ParseURI(address)
	require.NoError(t, err)
	name := Prefix(t)
	const password = "p@ss:w/rd?&%,#"
	text := func(s string) string { return `<<"` + strings.ReplaceAll(s, `\`, `\\`) + `">>` }
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	// One rabbitmqctl instead of two: each takes a second.
	_, err = b.Ctl(ctx, "eval", fmt.Sprintf(
		`rabbit_auth_backend_internal:add_user(%[1]s, %[2]s, <<"test">>), rabbit_auth_backend_internal:set_permissions(%[1]s, %[3]s, %[4]s, %[5]s, %[6]s, <<"test">>).`,
		text(name), text(password), text(at.Vhost), text(configure), text(write), text(read)))
	require.NoError(t, err)
	u.User = url.UserPassword(name, password)
	return u.String()
}

// Documented is User with the permissions that docs/operating.md, in the module's folder, gives a
// role. names are pairs of the page's and the test's.
func Documented(t testing.TB, b *rabbit.Broker, address, module, role string, names ...string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(module, "docs", "operating.md"))
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^rabbitmqctl set_permissions ` + role + ` '(.*)' '(.*)' '(.*)'$`).FindStringSubmatch(string(page))
	require.NotNil(t, line, "docs/operating.md has no permissions for %s", role)
	ours := strings.NewReplacer(names...)
	return User(t, b, address, ours.Replace(line[1]), ours.Replace(line[2]), ours.Replace(line[3]))
}

// Arrivals declares a queue, which goes with the test, and returns what arrives there, acknowledged.
func Arrivals(t testing.TB, ch *amqp091.Channel, queue string) <-chan amqp091.Delivery {
	t.Helper()
	_, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ch.QueueDelete(queue, ifUnused, ifEmpty, noWait) })
	in, err := ch.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
	require.NoError(t, err)
	return in
}
