package controller_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// What follows writes bundles as anybody can: package bundle has the format.

func text(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// forged returns a bundle for the log that claims to have so many records.
func forged(version byte, claims uint64, records ...[]byte) []byte {
	b := text([]byte{0xd7, 'B', version, 0}, "a stranger")
	b = binary.AppendUvarint(b, 1) // its number
	b = binary.AppendUvarint(b, claims)
	for _, r := range records {
		b = append(b, r...)
	}
	return checked(b)
}

func checked(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// The records. The due time of one is written as the difference to the one before it.
const messageRecord, cancelRecord, markRecord = 0, 1, 3

// forgedMessage has its id as its body, too.
func forgedMessage(id, queue, key, user string) []byte {
	now := time.Now()
	content := binary.AppendVarint(nil, now.UnixNano())
	content = binary.AppendVarint(content, int64(time.Second)) // the delay
	content = binary.AppendVarint(content, now.UnixMilli())
	content = text(text(content, ""), queue)
	content = text(append(content, 1), key)
	content = append(content, 0, 0, 0, 0, 0, 0, 0, 0)      // no properties
	content = append(content, amqp091.Persistent, 0, 0, 0) // neither a priority, a timestamp nor headers
	content = text(content, id)
	r := text(binary.AppendVarint([]byte{messageRecord}, now.UnixMilli()), id)
	r = append(r, 0, 0, 0, 0) // no ticket, nothing that remains, no clock of a process, not refused
	return text(text(text(r, user), queue), string(content))
}

func forgedCancel() []byte {
	return text(binary.AppendVarint([]byte{cancelRecord}, time.Now().UnixMilli()), "nobody's")
}

// slotsForeignMessagesAreKept: what somebody puts into a queue by hand is for an operator to see as
// it was, unless it is a bundle. A new leader looks into all slots.
func slotsForeignMessagesAreKept(t *testing.T, w *workbench) {
	d := w.slots(controls)
	queue, got := w.bound(d)
	require.NoError(t, d.Close())

	key := delivery.Key("", queue, message.Words(queue))
	whole := forged(1, 1, forgedMessage("cut", queue, key, ""))
	changed := append([]byte{}, whole...)
	changed[len(changed)/2]++
	unsorted := text([]byte{0xd7, 'B', 1, 1}, "a stranger")
	unsorted = append(unsorted, 1, 0, 0, 2) // its number, the turn, and how many records
	unsorted = append(unsorted, markRecord, 8, markRecord, 1)
	var kept []string
	for _, body := range [][]byte{
		[]byte("as it was"), whole[:len(whole)/2], changed, checked(unsorted), forged(0, 1, forgedCancel()),
		forged(1, 1_000_000, forgedCancel()), forged(1, 1, []byte{0xff, 0xff}),
	} {
		kept = append(kept, string(body))
	}
	var wantKept, wantArrived, gotKept, gotArrived []string
	for i, to := range []string{w.log(), w.slot(seconds, 0), w.slot(seconds, 3*seconds.width), w.slot(minutes, 0), w.slot(hours, 2*hours.width)} {
		for _, body := range kept {
			w.Publish("", to, amqp091.Publishing{Expiration: "100000", Body: []byte(body)})
		}
		id := func(what string) string { return fmt.Sprint(what, " ", i) }
		// The key is bound at the exchange in front of the slots, but not where messages are delivered.
		ours := message.Reserved + ":slot:4s-00"
		for _, r := range [][]byte{
			forgedMessage(id("whole"), queue, key, ""), forgedMessage(id("of root"), queue, key, "root"),
			forgedMessage(id("to a slot"), ours, ours, ""), {markRecord, 0}, forgedCancel(),
		} {
			w.Publish("", to, amqp091.Publishing{Body: forged(1, 1, r)})
		}
		wantKept = append(append(wantKept, kept...), id("to a slot"))
		wantArrived = append(wantArrived, id("whole"), id("of root"))
	}
	unroutable, cancel := w.ConsumeUntil(w.opts.Prefix + ".unroutable")
	d = w.slots(controls)
	for len(gotKept) < len(wantKept) {
		m := rabbittest.Next(w, unroutable)
		require.Empty(t, m.Expiration, "it shall stay")
		if _, is := m.Headers[delayer.Header]; !is { // a copy that another test has left
			gotKept = append(gotKept, cmp.Or(m.MessageId, string(m.Body))) // of a record that cannot be published its content
		}
	}
	require.ElementsMatch(t, wantKept, gotKept)
	for range wantArrived {
		m := rabbittest.Next(w, got)
		require.Empty(t, m.UserId)
		gotArrived = append(gotArrived, string(m.Body))
	}
	require.ElementsMatch(t, wantArrived, gotArrived)
	a := newMessages()
	w.publish(d, queue, a, "behind", time.Millisecond)
	w.settle(got, a)
	require.NoError(t, d.Close())
	cancel()
	for m := range unroutable {
		require.Contains(t, m.Headers, delayer.Header)
	}
}

// slotsALaterVersion: its bundle is left to a controller that can read it. This one says so, and
// delivers when it is gone.
func slotsALaterVersion(t *testing.T, w *workbench) {
	var said rabbittest.Logbook
	w.opts.Logger = said.Logger()
	later := forged(2, 1, forgedCancel())
	w.Publish("", w.log(), amqp091.Publishing{Body: later})
	d := w.slots(controls)
	queue, a := w.queue(), newMessages()
	w.publish(d, queue, a, "behind", time.Second)
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "later version of Delayer") }, patience, 50*time.Millisecond)
	require.NoError(t, d.Close())
	in, cancel := w.ConsumeUntil(w.log())
	var others []amqp091.Publishing
	for m := rabbittest.Next(w, in); string(m.Body) != string(later); m = rabbittest.Next(w, in) {
		others = append(others, amqp091.Publishing{Body: m.Body})
	}
	cancel()
	for m := range in {
		others = append(others, amqp091.Publishing{Body: m.Body})
	}
	w.Publish("", w.log(), others...)
	d = w.slots(controls)
	w.settle(w.Consume(queue), a)
	require.NoError(t, d.Close())
}
