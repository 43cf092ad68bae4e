package keeper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/lib/message"
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
	return fmt.Errorf("the routing key has %d words; with passive: true it may have eight", strings.Count(key, ".")+1)
}
