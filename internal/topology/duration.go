package topology

import (
	"strconv"
	"strings"
	"time"
)

// DurationName is a duration as people write it, for names of objects: 1m, 1h30m, 1s500ms. It has
// no dot, which separates words.
func DurationName(d time.Duration) string {
	var b strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / unit.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
		}
		d %= unit.size
	}
	return b.String()
}
