package keeper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// ImportedWords are the numbers of words that our keys may have in an imported topology. Each
// number needs its own bindings, and all would be too many. These serve routing keys with up to
// seven dots, and the empty key.
var ImportedWords = []int{1, 2, 3, 4, 5, 6, 7, 8, message.Words("")}

// CheckWords refuses a routing key for which an imported topology has no bindings.
func CheckWords(key string) error {
	if slices.Contains(ImportedWords, message.Words(key)) {
		return nil
	}
	return fmt.Errorf("the routing key has %d words; with declare: false it may have eight", strings.Count(key, ".")+1)
}

// exists makes sure that the exchanges and queues of an imported topology exist. Bindings cannot be
// seen.
func (k *Keeper) exists(ctx context.Context, p topology.Plan) error {
	missing, err := k.cfg.Objects.Missing(ctx, p)
	if err != nil || len(missing) == 0 {
		return err
	}
	const most = 5
	more := ""
	if len(missing) > most {
		more = fmt.Sprintf(" and %d more", len(missing)-most)
	}
	return &delayer.Error{
		Op: "open", Backend: k.cfg.Backend, Object: "topology", Kind: delayer.ErrNotFound,
		Cause: fmt.Errorf("with declare: false there must be %s%s", strings.Join(missing[:min(len(missing), most)], ", "), more),
		Hint:  "import what this prints: delayer topology print --output definitions, with the same configuration",
	}
}

// Complete returns the objects that links need in an imported topology.
func Complete[L any](links []L, needs func(l L, words int) topology.Plan) topology.Plan {
	var p topology.Plan
	for _, l := range links {
		for _, words := range ImportedWords {
			p.Bindings = append(p.Bindings, needs(l, words).Bindings...)
		}
	}
	return p
}
