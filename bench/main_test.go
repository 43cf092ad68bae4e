package bench

import (
	"testing"
	"time"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// soon makes the broker repeat a dead-lettering that failed while it started after ten seconds
// instead of three minutes.
var soon = rabbit.DeadLetterRetry(10 * time.Second)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{Args: soon}) }
