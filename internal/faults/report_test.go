package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASectionReplacesItsOwnAndNoOther(t *testing.T) {
	document := "before\n" + beginTable + endTable + "\nafter\n"
	document, err := replaceSection(document, "RabbitMQ 3.10.8, private node", "| old |\n")
	require.NoError(t, err)
	document, err = replaceSection(document, "RabbitMQ 4.3.0, Docker", "| other |\n")
	require.NoError(t, err)
	document, err = replaceSection(document, "RabbitMQ 3.10.8, private node", "| new |\n")
	require.NoError(t, err)
	assert.Equal(t, "before\n"+beginTable+"\n\n### RabbitMQ 3.10.8, private node\n\n| new |\n\n### RabbitMQ 4.3.0, Docker\n\n| other |\n\n"+endTable+"\nafter\n", document)

	_, err = replaceSection("no markers", "x", "y")
	assert.Error(t, err)
}

func TestTheTableSaysWhatTheAccountSays(t *testing.T) {
	row := Row{Fault: Fault{Name: "flood"}, Subject: "ladder", QueueType: "quorum", Problems: []string{"wet"}, Account: Account{
		Sent: 10, Confirmed: 9, Delivered: 7, Kept: 1, Twice: 2, Early: []int{1, 2, 3}, Missing: []int{4}, Deleted: 5,
		Outage: 1500 * time.Millisecond, LatestBy: 2 * time.Second,
	}}
	var b strings.Builder
	require.NoError(t, WriteMarkdown(&b, []Row{row}))
	assert.Contains(t, b.String(), "| flood | ladder | quorum | 10 | 9 | 7 | 1 | 2 | 3 | 1 (+5 deleted) | 1.5 s | 2.0 s |")
	assert.Contains(t, row.String(), "PROBLEM: wet")
}
