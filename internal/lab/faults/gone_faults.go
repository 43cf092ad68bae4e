package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// The groups of an account's messages under goneReplies, beside those of every fault.
const (
	others  = iota + 1 // for one of many exchanges
	replies            // for a queue that is deleted after they have arrived
	orphans            // for a queue that is deleted before they are due
)

const (
	bystanders  = 200                    // exchanges for which messages wait all the time
	requests    = 5                      // reply queues a second
	mostWords   = 12                     // of the names of reply queues: each number of words is routed on its own
	leastToGo   = 500 * time.Millisecond // a queue is deleted before a message with such a delay is due
	mostToGo    = 10 * time.Second       // or it would be a long fault
	mostToReply = 30 * time.Second       // after it was due
)

// goneReplies makes temporary reply queues, with two delayed messages for each. It does so twice,
// at the same pace: first the queues are deleted when both messages have arrived, which shows what
// that costs everybody else. Then each is deleted before the first is due, and the second is
// published afterwards. That may not hold up the others.
func goneReplies(ctx context.Context, s *Scene) error {
	ctx, end := context.WithCancel(ctx)
	var publishing sync.WaitGroup
	defer publishing.Wait()
	defer end()
	for _, r := range s.Runs {
		if err := r.makeBystanders(ctx); err != nil {
			return err
		}
	}
	var known sync.WaitGroup
	for _, r := range s.Runs {
		known.Add(1)
		publishing.Go(func() { r.publishToBystanders(ctx, min(2*s.Hold, r.Delayer.Limits().Max), known.Done) })
	}
	known.Wait()
	calm, err := s.converse(ctx, replies)
	if err != nil {
		return err
	}
	gone, err := s.converse(ctx, orphans)
	if err != nil {
		return err
	}
	s.mended()
	s.finally = func() {
		for i, r := range s.Runs {
			messages := r.Account.Messages()
			said, problems := judgeGone(messages)
			times, slow := judgeOthers(messages, calm.of[i], gone.of[i])
			s.Note("%s: %s; %s", r.Subject.Name, said, times)
			r.problems, r.slow = problems, slow
		}
	}
	s.Note("each message for a reply queue that was gone made Delayers send %d bytes more", costOfEach(calm, gone))
	return nil
}

// waits are the delays of messages for reply queues.
func (s Subject) waits() (list []time.Duration) {
	for _, d := range s.Delays {
		if d >= leastToGo && d <= mostToGo {
			list = append(list, d)
		}
	}
	return list
}

func (r *Run) bystander(i int) string { return fmt.Sprintf("%s-by-%d", r.Prefix, i) }

// makeBystanders declares exchanges that lead to the destination.
func (r *Run) makeBystanders(ctx context.Context) error {
	r.onClose = append(r.onClose, func() {
		const enough = time.Minute
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		_ = r.eachBystander(ctx, func(ch *amqp091.Channel, name string) error { return ch.ExchangeDelete(name, ifUnused, noWait) })
	})
	return r.eachBystander(ctx, func(ch *amqp091.Channel, name string) error {
		if err := ch.ExchangeDeclare(name, "fanout", durable, autoDelete, internal, noWait, nil); err != nil {
			return err
		}
		return ch.QueueBind(r.Queue(), "", name, noWait, nil)
	})
}

func (r *Run) eachBystander(ctx context.Context, do func(ch *amqp091.Channel, name string) error) error {
	return r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error {
		for i := range bystanders {
			if err := do(ch, r.bystander(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// publishToBystanders publishes to one after the other until ctx ends, so that for each of them a
// message waits, or for as many as a short delay allows. It calls known after the first of each.
func (r *Run) publishToBystanders(ctx context.Context, delay time.Duration, known func()) {
	publish := func(i int) {
		_, _ = r.tell(r.bystander(i%bystanders), "a.key", delay, others) // the account has it
	}
	for i := range bystanders {
		publish(i)
	}
	known()
	const leastPause = 20 * time.Millisecond
	tick := time.NewTicker(max(leastPause, delay*4/5/bystanders))
	defer tick.Stop()
	var publishing sync.WaitGroup
	defer publishing.Wait()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
			publishing.Go(func() { publish(i) }) // also while another is held up, or few would be measured
		case <-ctx.Done():
			return
		}
	}
}

// tell publishes a message of a group, and accounts for it.
func (r *Run) tell(exchange, key string, delay time.Duration, group int) (id int, err error) {
	id = int(r.turn.Add(1))
	r.Account.Ask(course{ID: id, Group: group, Asked: r.Account.Now(), Delay: delay})
	err = r.patiently(func(ctx context.Context) error {
		return r.Delayer.Publish(ctx, exchange, key, delay, r.message(id))
	})
	r.Account.Answer(id, r.Account.Now(), err)
	return id, err
}

// A phase is a part of a run's time.
type phase struct{ from, to time.Duration }

// A talk is what reply queues were made in, for all runs.
type talk struct {
	of       []phase // by run
	took     time.Duration
	messages int
	bytes    int64 // that Delayers have sent
}

// costOfEach is how many bytes more Delayers sent for each message of the later talk. It tells what
// the broker has to do. It is no verdict: a broker that is busy answers later, and then Delayers
// also make fewer bindings again.
func costOfEach(before, later talk) int64 {
	usual := float64(before.bytes) * float64(later.took) / float64(before.took)
	return int64((float64(later.bytes) - usual) / float64(max(1, later.messages)))
}

// converse makes reply queues for half of the hold, for every run, and returns when nothing is on
// its way to them any more.
func (s *Scene) converse(ctx context.Context, group int) (talk, error) {
	t := talk{of: make([]phase, len(s.Runs))}
	errs := make([]error, len(s.Runs))
	began, asked := time.Now(), s.Proxy.Asked()
	var runs sync.WaitGroup
	for i, r := range s.Runs {
		runs.Go(func() {
			t.of[i].from = r.Account.Now()
			errs[i] = r.converse(ctx, group, s.Hold/2)
			t.of[i].to = r.Account.Now()
		})
	}
	runs.Wait()
	t.took, t.bytes = time.Since(began), s.Proxy.Asked()-asked
	for _, r := range s.Runs {
		for _, m := range r.Account.Messages() {
			t.messages += one(m.Group == group)
		}
	}
	return t, errors.Join(errs...)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (r *Run) converse(ctx context.Context, group int, lasts time.Duration) error {
	const pace = time.Second / requests
	waits, n := r.Subject.waits(), max(len(r.Subject.waits()), int(lasts/pace))
	errs := make([]error, n)
	var asking sync.WaitGroup
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for i := range n {
		name := fmt.Sprintf("%s-reply-%d-%d%s", r.Prefix, group, i, strings.Repeat(".x", i%mostWords))
		asking.Go(func() { errs[i] = r.request(ctx, name, waits[i%len(waits)], group) })
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	asking.Wait()
	return errors.Join(errs...)
}

// request declares a reply queue and deletes it: after messages have arrived, or before they are
// due. It returns when they have been due. A copy of a message is not another message, and one
// whose outcome is unknown may arrive: a broker that is behind makes both, and no queue may go
// before.
func (r *Run) request(ctx context.Context, name string, delay time.Duration, group int) error {
	const goesWithConsumer = true
	client, took := r.receiver.client, make(chan int, 16)
	err := client.Do(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(name, durable, goesWithConsumer, exclusive, noWait, nil)
		return err
	})
	if err != nil {
		return err
	}
	stop, err := client.Consume(ctx, name, func(d amqp091.Delivery, at time.Time) {
		r.receiver.arrived(d, at)
		id, _ := r.receiver.number(d.Body)
		select {
		case took <- id:
		default: // copies of what has arrived
		}
	})
	if err != nil {
		return err
	}
	remove := func() error {
		stop()
		return client.Do(ctx, func(ch *amqp091.Channel) error { return deleteQueue(ch, name) })
	}
	id, first := r.tell("", name, delay, group)
	due := time.After(delay)
	if group == orphans {
		err := remove()
		r.deletedOne(id) // if it was due meanwhile
		_, _ = r.tell("", name, delay, group)
		<-due
		return err
	}
	enough := time.After(delay + mostToReply)
	other, second := r.tell("", name, delay, group)
	if !allTaken(took, enough, stored(id, first, other, second)) {
		return nil // the queue stays until the end: what is late or unknown may come yet
	}
	return remove()
}

// stored are the numbers of those of two messages that may have been stored.
func stored(id int, first error, other int, second error) map[int]bool {
	may := map[int]bool{}
	for id, err := range map[int]error{id: first, other: second} {
		if err == nil || !delayer.SafeToRetry(err) {
			may[id] = true
		}
	}
	return may
}

// allTaken waits until all these messages have arrived, each once or more. It returns false after
// enough.
func allTaken(took <-chan int, enough <-chan time.Time, missing map[int]bool) bool {
	for len(missing) > 0 {
		select {
		case id := <-took:
			delete(missing, id)
		case <-enough:
			return false
		}
	}
	return true
}

// judgeGone counts what became of messages. Those for reply queues that were gone must be refused
// or kept as unroutable, and no other. Which of the two, and how many came before their queue was
// deleted, depends on how busy the machine is.
func judgeGone(messages []course) (said string, problems []string) {
	var misplaced, kept, refused int
	for _, m := range messages {
		switch {
		case m.Group != orphans && m.Kept && m.Copies == 0: // a queue may go before it has confirmed what arrived
			misplaced++
		case m.Group == orphans && m.Kept:
			kept++
		case m.Group == orphans && m.Err != nil:
			refused++
		}
	}
	if misplaced > 0 {
		problems = append(problems, fmt.Sprintf("%d were kept as unroutable whose destination was there", misplaced))
	}
	if kept+refused == 0 {
		problems = append(problems, "no message was refused or kept as unroutable whose reply queue was deleted")
	}
	return fmt.Sprintf("for reply queues that were gone %d messages were kept and %d refused", kept, refused), problems
}

// judgeOthers compares what the others met with while reply queues were deleted in time, and while
// they were gone.
func judgeOthers(messages []course, calm, gone phase) (said string, slow []string) {
	said = "the others' median and longest"
	for _, c := range []struct {
		what string
		of   func(course) (time.Duration, bool)
	}{{"Publish", publishTime}, {"lateness", lateness}} {
		before, meanwhile := times(messages, calm, c.of), times(messages, gone, c.of)
		figures := fmt.Sprintf("%s %s before, %s meanwhile", c.what, before, meanwhile)
		said += "; " + figures
		if before.heldUp(meanwhile) {
			slow = append(slow, "others were held up while reply queues were gone, median and longest: "+figures)
		}
	}
	return said, slow
}

func publishTime(m course) (time.Duration, bool) { return m.Answered - m.Asked, m.Answered > 0 }

func lateness(m course) (time.Duration, bool) { return m.Lateness(), m.Copies > 0 }

// A spread is of times.
type spread struct{ median, longest time.Duration }

func (s spread) String() string {
	const tenth = 100 * time.Microsecond
	return fmt.Sprintf("%v and %v", s.median.Round(tenth), s.longest.Round(tenth))
}

// times is the spread of the others' that were asked for in a phase.
func times(messages []course, p phase, of func(course) (time.Duration, bool)) (s spread) {
	var list []time.Duration
	for _, m := range messages {
		if m.Group == others && m.Asked >= p.from && m.Asked < p.to {
			if d, ok := of(m); ok {
				list = append(list, d)
			}
		}
	}
	if len(list) == 0 {
		return s
	}
	slices.Sort(list)
	return spread{list[len(list)/2], list[len(list)-1]}
}

// heldUp reports whether the times of a later phase are longer than a machine explains that has
// nothing else to do.
func (s spread) heldUp(later spread) bool {
	const times, more = 4, 250 * time.Millisecond
	return later.median > times*s.median+more || later.longest > s.longest+inFlight
}
