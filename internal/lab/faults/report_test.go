package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func row(fault, subject string, sent int) Row {
	return Row{Fault: Fault{Name: fault}, Subject: subject, QueueType: "quorum", Totals: Totals{Sent: sent}}
}

// TestACampaignMayBeMadeInParts: each fault's rows are those of its last run, and every broker has
// a section.
func TestACampaignMayBeMadeInParts(t *testing.T) {
	page := "before\n" + beginTable + "\n" + endTable + "\nafter\n"
	const node, docker = "RabbitMQ 3.10.8, private node", "RabbitMQ 4.3.0, Docker"
	put := func(broker, run string, rows ...Row) {
		var err error
		page, err = updated(page, broker, run, rows)
		require.NoError(t, err)
	}
	put(node, "`one`, seed 1", row("flood", "ladder", 1), row("flood", "tiers", 2), row("fire", "ladder", 3))
	put(docker, "`two`, seed 2", row("flood", "ladder", 4))
	put(node, "`three`, seed 3", row("fire", "ladder", 5))

	want := "before\n" + beginTable + "\n" + sectionHead + node + "\n\n" +
		"- flood: by `one`, seed 1\n- fire: by `three`, seed 3\n\n" + tableHead +
		"| flood | ladder | quorum | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 s | 0.0 s | 0.0 s |\n" +
		"| flood | tiers | quorum | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 s | 0.0 s | 0.0 s |\n" +
		"| fire | ladder | quorum | 5 | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 s | 0.0 s | 0.0 s |\n" +
		sectionHead + docker + "\n\n- flood: by `two`, seed 2\n\n" + tableHead +
		"| flood | ladder | quorum | 4 | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 s | 0.0 s | 0.0 s |\n" +
		"\n" + endTable + "\nafter\n"
	assert.Equal(t, want, page)

	_, err := updated("no markers", node, "x", nil)
	assert.Error(t, err)
}

// TestUpdated_FewerColumns: what a row of an older table does not say is not a zero.
func TestUpdated_FewerColumns(t *testing.T) {
	const node, old = "RabbitMQ 3.10.8, private node", "| flood | ladder | quorum | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0.0 s | 0.0 s |"
	page := beginTable + sectionHead + node + "\n\n- flood: by `one`\n\n| a head |\n|---|\n" + old + "\n" + endTable
	for range 2 {
		var err error
		page, err = updated(page, node, "`two`", []Row{row("fire", "ladder", 2)})
		require.NoError(t, err)
	}
	assert.Contains(t, page, tableHead+old+" – |\n| fire |")
}

func TestTheTableSaysWhatTheAccountSays(t *testing.T) {
	r := Row{Fault: Fault{Name: "flood"}, Subject: "ladder", QueueType: "quorum", Problems: []string{"wet"}, Slow: []string{"snail"}, Totals: Totals{
		Sent: 10, Confirmed: 9, Delivered: 7, Kept: 1, Twice: 2, Early: []int{1, 2, 3}, Missing: []int{4}, Deleted: 5, Cancelled: 8,
		Outage: 1500 * time.Millisecond, LatestBy: 2 * time.Second, AfterEnd: time.Second,
	}}
	assert.Equal(t, "| flood | ladder | quorum | 10 | 9 | 7 (+8 cancelled) | 1 | 2 | 3 | 1 (+5 deleted) | 1.5 s | 2.0 s | 1.0 s |", r.markdown())
	assert.Contains(t, r.String(), "PROBLEM: wet")
	assert.Contains(t, r.String(), "SLOW: snail")
	assert.Contains(t, r.String(), "2.0 s     1.0 s")
}
