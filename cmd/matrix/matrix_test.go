package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stream is what go test -json prints of a run with a pass, a failure and a skip.
const stream = `{"Action":"run","Test":"TestConformance"}
{"Action":"output","Test":"TestConformance","Output":"broker: RabbitMQ 4.3.6, Docker container (rabbitmq:4.3)\n"}
{"Action":"output","Test":"TestConformance/a/with_more/quorum/one","Output":"ok so far\n"}
{"Action":"pass","Test":"TestConformance/a/with_more/quorum/one"}
{"Action":"output","Test":"TestConformance/a/with_more/quorum/two","Output":"lost one\n"}
{"Action":"fail","Test":"TestConformance/a/with_more/quorum/two"}
{"Action":"fail","Test":"TestConformance/a/with_more/quorum"}
{"Action":"pass","Test":"TestConformance/a/classic/one"}
{"Action":"skip","Test":"TestConformance/plugin"}
{"Action":"fail","Test":"TestConformance"}
{"Action":"fail"}
`

func TestReadCountsTestsThatHaveNoSubtests(t *testing.T) {
	r := read("conformance", strings.NewReader(stream))
	require.Equal(t, map[string]count{
		"a/with more, quorum": {passed: 1, failed: 1}, "a, classic": {passed: 1}, "plugin": {skipped: 1},
	}, withoutEmpty(r.counts))
	require.Equal(t, "4.3.6", r.version)
	require.Equal(t, []string{"lost one\n"}, r.said, "only what failed, and not its parents")
	require.Equal(t, "2 passed, 1 skipped, 1 failed", r.sum())
}

func withoutEmpty(counts map[string]count) map[string]count {
	for row, c := range counts {
		if c == (count{}) {
			delete(counts, row)
		}
	}
	return counts
}

func TestASuiteThatDiesFails(t *testing.T) {
	r := read("faults", strings.NewReader(`{"Action":"output","Test":"TestFaults","Output":"panic: no\n"}`+"\n"+`{"Action":"fail"}`))
	require.NotEmpty(t, r.broken)
	require.Contains(t, r.said, "panic: no\n", "what was under way tells why")
	require.ErrorContains(t, verdict([]report{{target: targets[0], suites: []result{r}}}), "3.10, faults")
	require.ErrorContains(t, verdict([]report{{target: targets[0], skipped: "no image"}}), "nothing was run")
	require.NoError(t, verdict([]report{{target: targets[0], suites: []result{{suite: "faults"}}}, {target: targets[1], skipped: "no image"}}))
}

func TestRows(t *testing.T) {
	for test, want := range map[string]string{
		"TestConformance/binaryladder/source/with_more/quorum/case": "binaryladder/source/with more, quorum",
		"TestConformance/plugin/case":                               "plugin",
		"TestFaultsKill/controller/classic":                         "controller, classic",
		"TestFaultsKill":                                            "FaultsKill",
		"TestFaultsOfABroker/second_attempt":                        "FaultsOfABroker/second attempt",
	} {
		require.Equal(t, want, rowOf(test), test)
	}
}

func TestThePageKeepsWhatWasNotRunNow(t *testing.T) {
	a, b := count{passed: 3}, count{passed: 2, skipped: 1}
	first := tablesOf([]report{
		{target: targets[0], image: "rabbitmq:3.10", day: "2026-01-01", suites: []result{{suite: "conformance", version: "3.10.8", counts: map[string]count{"x, quorum": a}}}},
		{target: targets[1], skipped: "no image"},
	})
	page, err := replace("above\n"+begin+end+"\nbelow\n", first)
	require.NoError(t, err)
	second := tablesOf([]report{
		{target: targets[0], skipped: "no image today"},
		{target: targets[4], image: targets[4].image("mine:{series}-plugin"), day: "2026-01-02", suites: []result{{suite: "faults", version: "4.3.6", counts: map[string]count{"x, quorum": b}}}},
	})
	page, err = replace(page, second)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(`above
<!-- matrix: begin -->
| RabbitMQ | tests | version | day | what was seen |
|---|---|---|---|---|
| 3.10 | conformance | 3.10.8 | 2026-01-01 | 3 passed, 0 skipped, 0 failed |
| 3.13 | – | – | – | skipped: no image |
| 4.3 | faults | 4.3.6 ('mine:4.3-plugin') | 2026-01-02 | 2 passed, 1 skipped, 0 failed |

| conformance: passed | 3.10 |
|---|---|
| x, quorum | 3 |

| faults: passed | 4.3 |
|---|---|
| x, quorum | 2, 1 skipped |
<!-- matrix: end -->
below
`, "'", "`"), page)
	again, err := replace(page, tables{})
	require.NoError(t, err)
	require.Equal(t, page, again, "what is written is read back")
	_, err = replace("no markers", first)
	require.ErrorContains(t, err, "lacks")
}

func TestChoose(t *testing.T) {
	some, err := choose("series", "4.3, 3.10", targets)
	require.NoError(t, err)
	require.Equal(t, []string{"3.10", "4.3"}, names(some))
	_, err = choose("series", "5.0", targets)
	require.ErrorContains(t, err, `there is no "5.0" (known: 3.10, 3.13, 4.0, 4.2, 4.3, 4.3 strict)`)
}
