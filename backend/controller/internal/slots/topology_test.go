package slots

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

func TestNames_OneShardIsNotNamed(t *testing.T) {
	one, two := New("p", 1, 0).names, New("p", 2, 0).names
	two.shard = 1
	slot := wheel.Slot{Level: 1, Index: 7}
	require.Equal(t, []string{"p.controller.wait.1m.07", "~d:slot:1m-07", "p.controller.intake", "p.controller.enter"},
		[]string{one.queue(slot), one.slotKey(slot), one.queue(wheel.Intake), one.enter()})
	require.Equal(t, []string{"p.controller.1.wait.1m.07", "~d:slot-1:1m-07", "p.controller.1.intake", "p.controller.1.enter"},
		[]string{two.queue(slot), two.slotKey(slot), two.queue(wheel.Intake), two.enter()})
	for _, shared := range []func(names) string{names.marker, names.enterSlots, names.clock, names.steps} {
		require.Equal(t, shared(one), shared(two))
	}
}

// TestNames_Of: this is the protocol. A process that reckons otherwise writes changes where they do
// not meet their messages.
func TestNames_Of(t *testing.T) {
	n := New("p", 4, 0).names
	for id, shard := range map[string]int{"": 0, "A": 3, "01JD3Z6S8V": 3, "2WQ7G5FKMR": 2} {
		require.Equal(t, shard, n.of(id).shard, id)
	}
}

func TestNames_MessagesAreSpread(t *testing.T) {
	const many = 20_000
	for shards := 1; shards <= 16; shards++ {
		n, got := New("p", shards, 0).names, make([]int, shards)
		for range many {
			got[n.of(message.NewEnvelope(time.Now(), 0, "").ID).shard]++
		}
		for _, count := range got {
			require.InDelta(t, many/shards, count, 0.2*many/float64(shards), "%d shards: %v", shards, got)
		}
	}
}

// TestWheel_Plan: each shard has its own queues, and all of them are listed with their turns.
func TestWheel_Plan(t *testing.T) {
	const shards = 3
	w := New("p", shards, 0)
	queues, intakes := map[string]bool{}, 0
	for _, q := range w.Plan().Queues {
		require.False(t, queues[q.Name], q.Name)
		queues[q.Name] = true
		if q.Role == topology.Intake {
			intakes++
		}
	}
	require.Equal(t, shards, intakes)
	turns := w.Turns(time.Now())
	require.Len(t, turns, shards*len(w.wheel.Slots()))
	for name := range turns {
		require.True(t, queues[name], name)
	}
	keys := map[string]bool{}
	for _, b := range w.Plan().Bindings {
		at := b.Source + " " + b.Key
		require.False(t, keys[at] && b.Source == w.names.enterSlots(), "two queues get %s", at)
		keys[at] = true
	}
}

func TestWheel_ShardsAreConfiguration(t *testing.T) {
	require.Equal(t, "p:controller,slots="+wheel.Default().String()+",quorum", New("p", 1, 0).config())
	require.Equal(t, "p:controller,slots="+wheel.Default().String()+",shards=3,quorum", New("p", 3, 0).config())
	of := newTickets("/", "p", New("p", 3, 0).String())
	_, err := newTickets("/", "p", New("p", 1, 0).String()).read(of.write(ticket{id: "A", due: brokertime.Due{At: 1, Since: 1}}))
	require.ErrorIs(t, err, errWheel)
}

// TestFair: with each process leading its share at most, there is room for all shards.
func TestFair(t *testing.T) {
	for shards := 1; shards <= 16; shards++ {
		for processes := 1; processes <= 20; processes++ {
			require.GreaterOrEqual(t, fair(shards, processes)*processes, shards)
			require.Less(t, (fair(shards, processes)-1)*processes, shards)
		}
	}
	require.Equal(t, 3, fair(3, 0), "its own candidate is not counted yet")
}

// TestSeniority: whatever the order in which processes wait for each shard, the shards come to be
// spread, and then stay.
func TestSeniority(t *testing.T) {
	for shards := 1; shards <= 8; shards++ {
		for processes := 1; processes <= 6; processes++ {
			t.Run(fmt.Sprint(shards, processes), func(t *testing.T) { spreads(t, shards, processes) })
		}
	}
}

func spreads(t *testing.T, shards, processes int) {
	waits := make([][]int, shards) // the processes that consume each intake; the first leads
	known := make([]seniority, processes)
	look := func() (handedOver int) {
		for p := range processes {
			known[p].note(shards, func(shard int) bool { return len(waits[shard]) > 0 && waits[shard][0] == p })
			if len(known[p]) > fair(shards, len(waits[0])) {
				at := known[p].newest()
				waits[at] = append(waits[at][1:], p)
				handedOver++
			}
		}
		return handedOver
	}
	settle := func() {
		for range shards * processes {
			if look() == 0 {
				return
			}
		}
		require.Zero(t, look(), "they do not settle: %v", waits)
	}
	for p := range processes { // they start one after the other
		for shard := range waits {
			waits[shard] = append(waits[shard], p)
		}
		settle()
	}
	for gone := range processes - 1 { // and end
		for shard := range waits {
			waits[shard] = slices.DeleteFunc(waits[shard], func(p int) bool { return p == gone })
		}
		settle()
	}
	for _, w := range waits {
		require.Len(t, w, 1)
	}
}
