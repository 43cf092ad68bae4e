package statuscmd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/status"
)

func TestCondition(t *testing.T) {
	two, seven := 2, 7
	s := status.Status{
		Waiting: &seven, Unroutable: &status.Queue{Messages: 3}, Policies: []string{"one"}, Parked: []status.Queue{{Messages: 4}, {Messages: 5}},
		Backends: []status.Backend{{Missing: []string{"q"}}, {Controllers: &two}},
		Unknown:  []status.Unknown{{What: "queues of other configurations", Why: "no management API is given"}},
	}
	for text, want := range map[string]string{
		"unroutable>0":    "unroutable>0: unroutable is 3",
		"unroutable > 3":  "",
		"unroutable>=3":   "unroutable>=3: unroutable is 3",
		"unroutable<4":    "unroutable<4: unroutable is 3",
		"unroutable<=2":   "",
		"waiting==7":      "waiting==7: waiting is 7",
		"waiting!=7":      "",
		"policies>0":      "policies>0: policies is 1",
		"parked>8":        "parked>8: parked is 9",
		"controllers<1":   "",
		" controllers<3 ": " controllers<3 : controllers is 2",
		"missing>0":       "missing>0: missing is 1",
		"misrouted>0":     "",
	} {
		var c condition
		err := c.UnmarshalText([]byte(text))
		require.NoError(t, err, text)
		got, err := c.holds(s)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"others>0": "others>0: others is not known (not known: queues of other configurations: no management API is given)",
	} {
		var c condition
		err := c.UnmarshalText([]byte(text))
		require.NoError(t, err, text)
		_, err = c.holds(s)
		require.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{
		"":                                "is no condition such as unroutable>0",
		"unroutable":                      "want a name, one of > >= < <= == != and a whole number (names: bindings, controllers, misrouted, missing, others, overdue, parked, policies, unroutable, waiting)",
		"unroutable=0":                    "is no condition",
		"unroutable>-1":                   "is no condition",
		"unroutable>1h":                   "is no condition",
		"lost>0":                          `there is no number "lost" (names: bindings,`,
		"waiting>99999999999999999999999": "is too large",
	} {
		err := new(condition).UnmarshalText([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}
