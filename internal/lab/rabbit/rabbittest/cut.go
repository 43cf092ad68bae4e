package rabbittest

import (
	"context"
	"fmt"
	"strings"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// Cut makes the broker close the connections whose names begin with name, and no others. It is an
// error if there are none.
func Cut(ctx context.Context, b *rabbit.Broker, name string) error {
	count, err := b.Ctl(ctx, "eval", fmt.Sprintf(`length([rabbit_networking:close_connection(P, "test") || `+
		`P <- rabbit_networking:connections(), `+
		`[{client_properties, About}] <- [(catch rabbit_reader:info(P, [client_properties]))], is_list(About), `+
		`{<<"connection_name">>, _, Name} <- About, binary:longest_common_prefix([Name, <<"%[1]s">>]) == %[2]d]).`,
		name, len(name)))
	if err == nil && strings.TrimSpace(count) == "0" {
		err = fmt.Errorf("the broker has no connection %s", name)
	}
	return err
}
