package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// childVariable makes the test binary start a broker of the kind it names, say so, and wait to be
// killed.
const childVariable = "DELAYER_TEST_CHILD"

func childMain() bool {
	kind := os.Getenv(childVariable)
	if kind == "" {
		return false
	}
	err := startChild(kind)
	if errors.Is(err, rabbit.ErrNone) {
		fmt.Println("none:", err)
		return true
	}
	if err != nil {
		fmt.Println("failed:", err)
		return true
	}
	fmt.Println("ready")
	select {}
}

// clusterChild is the kind of a child that starts a cluster.
const clusterChild = "cluster"

func startChild(kind string) (err error) {
	if kind == clusterChild {
		_, err = rabbit.StartCluster(context.Background(), rabbit.Options{}, 2)
	} else {
		_, err = rabbit.Start(context.Background(), rabbit.Options{Choice: kind})
	}
	return err
}
