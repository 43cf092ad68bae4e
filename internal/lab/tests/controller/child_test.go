package controller_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
)

type childSettings struct {
	URL, Prefix string
}

func settings(tb testing.TB, opts delayer.Options) string {
	tb.Helper()
	text, err := json.Marshal(childSettings{opts.URL, opts.Prefix})
	require.NoError(tb, err)
	return string(text)
}

// controllerVariable makes the test binary a controller, with these settings in JSON.
const controllerVariable = "DELAYER_TEST_CONTROLLER"

// child runs a controller if the environment asks for one.
func child() (ok bool, err error) {
	text := os.Getenv(controllerVariable)
	if text == "" {
		return false, nil
	}
	var s childSettings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return true, err
	}
	return true, controllerChild(delayer.Options{URL: s.URL, Prefix: s.Prefix, Logger: slog.New(slog.DiscardHandler)})
}

// controllerChild delivers until it is killed. For each line of its input it prints how many bytes
// are on its heap.
func controllerChild(opts delayer.Options) error {
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Println(m.HeapAlloc)
		}
	}()
	return controller.Serve(context.Background(), opts, controller.Config{})
}
