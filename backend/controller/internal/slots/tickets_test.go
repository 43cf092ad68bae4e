package slots

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
	"github.com/delayer-go/delayer/internal/lib/bundle"
)

var ourTickets = newTickets("/", "delayer", "52x4s")

func TestTickets_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := ticket{
			id:  string(rapid.SliceOfN(rapid.Byte(), 1, bundle.MaxID).Draw(t, "id")),
			due: brokertime.Due(rapid.Int64Range(1, 16_725_225_600_000).Draw(t, "due")),
		}
		text := ourTickets.write(was)
		require.LessOrEqual(t, len(text), 120)
		require.Regexp(t, `^[-_.A-Za-z0-9]+$`, string(text))
		is, err := ourTickets.read(text)
		require.NoError(t, err)
		require.Equal(t, was, is)
	})
}

// TestReadTicket: without a broker, and with the reason if it is another's.
func TestReadTicket(t *testing.T) {
	w := New("/", "delayer", 1<<20)
	d := &Delayer{wheel: w}
	of := func(vhost string) delayer.Ticket {
		return newTickets(vhost, "delayer", w.rings.String()).write(ticket{id: "ABC1", due: 1795329200000})
	}
	id, due, err := d.ReadTicket(of("/"))
	require.NoError(t, err)
	require.Equal(t, "ABC1", id)
	require.Equal(t, int64(1795329200000), due.UnixMilli())
	_, _, err = d.ReadTicket(of("other"))
	require.ErrorIs(t, err, delayer.ErrTicket)
	require.ErrorIs(t, err, errOthers)
}

func TestTickets_RefuseOthers(t *testing.T) {
	good := ticket{id: "ABC1", due: 1795329200000}
	text := ourTickets.write(good)
	for name, c := range map[string]struct {
		text delayer.Ticket
		why  error
	}{
		"another vhost":  {newTickets("other", "delayer", "52x4s").write(good), errOthers},
		"another prefix": {newTickets("/", "other", "52x4s").write(good), errOthers},
		"another wheel":  {newTickets("/", "delayer", "64x3s").write(good), errOthers},
		"nothing":        {"", errDamaged},
		"no ticket":      {"hello", errDamaged},
		"longer":         {text + "AAAA", errDamaged},
		"no time":        {ourTickets.write(ticket{id: "ABC1"}), errDamaged},
		"no id":          {ourTickets.write(ticket{due: good.due}), errDamaged},
		"an id too long": {ourTickets.write(ticket{id: strings.Repeat("A", bundle.MaxID+1), due: good.due}), errDamaged},
	} {
		_, err := ourTickets.read(c.text)
		require.ErrorIs(t, err, c.why, name)
	}
	for i := range text {
		_, err := ourTickets.read(text[:i])
		require.ErrorIs(t, err, errDamaged, "cut short: %s", text[:i])
		for _, letter := range "A_9" {
			changed := text[:i] + delayer.Ticket(letter) + text[i+1:]
			if changed == text {
				continue
			}
			_, err := ourTickets.read(changed)
			require.Error(t, err, "changed by a letter: %s", changed)
		}
	}
}

// FuzzTickets: whatever is read can be written again, and is then the same.
func FuzzTickets(f *testing.F) {
	f.Add(string(ourTickets.write(ticket{id: "ABC1", due: 1795329200000})))
	f.Fuzz(func(t *testing.T, text string) {
		if is, err := ourTickets.read(delayer.Ticket(text)); err == nil {
			require.Equal(t, text, string(ourTickets.write(is)))
		}
	})
}
