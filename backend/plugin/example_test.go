package plugin_test

import (
	"fmt"
	"log"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/plugin"
)

// The plugin holds a message for 49 days at most, and may lose what it holds.
func ExampleLimits() {
	limits, err := plugin.Limits(delayer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limits.Max, limits.SurvivesRestart)
	// Output: 1193h2m47.295s false
}
