package conformance

import (
	"maps"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// oddRoutingKeys look like keys with which a backend might route.
var oddRoutingKeys = []string{
	"", "1", "0", "1.0.1", "1.x", "0.0.1.0.x", strings.Repeat("0.", 28) + "q", strings.Repeat("1.", 28) + "q",
	"*", "#", "*.*", "#.b", "a.#", "a", "a.b", "a.b.c", ".", "..", ".a", "a.", "a..b", "with space", "ünïcödé",
	"x-delayer", "delayer.1", "5>3", "a/b:c=d@e%f", strings.Repeat("k", 200), strings.Repeat("k.", 127) + "k",
}

func oddKeys(t *trial) {
	in, exchange := t.routed("topic", "#")
	outs := t.mustPublish(jobs(len(oddRoutingKeys), "key", func(i int, id string) job {
		return job{exchange, oddRoutingKeys[i], t.short(), text(id)}
	})...)
	t.exactly(in, outs)
	for _, o := range outs {
		if got := in.of(o.id())[0].RoutingKey; got != o.key {
			t.errorf("message %s arrived with routing key %q, want %q", o.id(), got, o.key)
		}
	}
}

func oddNames(t *trial) {
	name := t.name("x")
	outs := map[*receiver][]outcome{}
	for _, q := range []string{"1.0.1." + name, "0.0.1.0." + name, name + ".1", "*." + name, "#." + name, "a b " + name} {
		in, exchange := t.queue(q), "1.0."+q
		t.must(t.w.DeclareExchange(t.ctx, exchange, "fanout"))
		t.bind(in, "", exchange)
		outs[in] = t.mustPublish(to(in, "for queue "+q, t.short()), job{exchange, "1.0", t.short(), text("for exchange " + exchange)})
	}
	for in, published := range outs {
		t.await(in, published)
	}
	t.sentinel(slices.Collect(maps.Keys(outs))...)
	for in, published := range outs {
		t.only(in, published, false)
	}
}

func topicBindings(t *trial) {
	exchange := t.exchange("topic")
	receivers := map[string]*receiver{}
	for _, pattern := range topicPatterns {
		receivers[pattern] = t.queue(t.name("queue"))
		t.bind(receivers[pattern], pattern, exchange)
	}
	for i, key := range oddRoutingKeys {
		t.must(t.w.Publish(t.ctx, exchange, key, text(sprintf("plain-%03d", i))))
	}
	t.await(receivers["#"], t.mustPublish(jobs(len(oddRoutingKeys), "delayed", func(i int, id string) job {
		return job{exchange, oddRoutingKeys[i], t.short(), text(id)}
	})...))
	t.sentinel(slices.Collect(maps.Values(receivers))...)
	for pattern, in := range receivers {
		var missing, extra []string
		for _, key := range oddRoutingKeys {
			plain, delayed := in.withKey("plain", key), in.withKey("delayed", key)
			if delayed < plain {
				missing = append(missing, sprintf("%q", key))
			}
			if delayed > plain && !t.wordsMayTell(key, pattern) {
				extra = append(extra, sprintf("%q", key))
			}
		}
		if len(missing)+len(extra) > 0 {
			t.errorf("binding %q: of the delayed messages, missing those with the keys %s; not expected those with the keys %s",
				pattern, list(missing), list(extra))
		}
	}
}

// topicPatterns could match a backend's own keys: the broker matches all keys of a message.
var topicPatterns = []string{
	"", "#", "*", "*.*", "*.*.*", "*.*.*.*", "*.*.*.*.*", "*.*.*.*.*.*", "*.#", "#.*.*", "*.*.*.#",
	"a.*", "a.#", "#.x", "#.q", "1.*", "1.#", "#.1.#", "*.0.#", "0.#", "#.b",
}

// wordsMayTell reports whether a pattern of wildcards may match a backend's own key although it
// does not match the user's: the broker matches all keys of a message at every exchange. The keys
// of a backend that declares ExactTopics have as many words as the user's, which the empty key has
// not.
func (t *trial) wordsMayTell(key, pattern string) bool {
	wildcards := pattern != "" && strings.Trim(pattern, "*#.") == ""
	return wildcards && (!t.lim.ExactTopics || key == "" && strings.Contains(pattern, "#"))
}

// withKey counts the arrivals of messages of a kind with a key.
func (b *receiver) withKey(kind, key string) int {
	n := 0
	for _, a := range b.all() {
		if strings.HasPrefix(a.MessageId, kind+"-") && a.RoutingKey == key {
			n++
		}
	}
	return n
}

func similarNames(t *trial) {
	b := t.name("b")
	var receivers []*receiver
	var all []job
	for _, name := range []string{b, "a." + b, "x.a." + b, b + ".a", "a" + b} {
		receivers = append(receivers, t.queue(name))
		all = append(all, to(receivers[len(receivers)-1], "for "+name, t.short()))
	}
	outs := t.mustPublish(all...)
	for i, in := range receivers {
		t.exactly(in, outs[i:i+1])
	}
}

func ccAndBCC(t *trial) { t.copies(t.exchange("direct")) }

func ccAndBCCByName(t *trial) { t.copies("") }

// copies publishes to five queues by key, CC and BCC, plainly and through the Delayer. Each must get as
// many delayed messages as plain ones, looking the same.
func (t *trial) copies(exchange string) {
	t.Helper()
	var keys []string
	var receivers []*receiver
	for _, hint := range []string{"key", "cc", "cc-too", "bcc", "nobody"} {
		in := t.queue(t.name(hint))
		receivers, keys = append(receivers, in), append(keys, in.queue)
		if exchange != "" {
			t.bind(in, in.queue, exchange)
		}
	}
	// CC repeats the key, and names one for which nothing is bound.
	headers := amqp091.Table{"CC": []any{keys[1], keys[0], keys[2], t.name("nowhere")}, "BCC": []any{keys[3]}}
	copied := func(id string) amqp091.Publishing {
		m := text(id)
		m.Headers = maps.Clone(headers)
		m.DeliveryMode = amqp091.Persistent
		return m
	}
	t.must(t.w.Publish(t.ctx, exchange, keys[0], copied("plain")))
	t.await(receivers[0], t.mustPublish(job{exchange, keys[0], t.short(), copied("delayed")}))
	for _, in := range receivers {
		t.sentinel(in)
		plain, delayed := in.of("plain"), in.of("delayed")
		if len(plain) != len(delayed) {
			t.errorf("queue %s: arrived %d times, want %d", in.queue, len(delayed), len(plain))
			continue
		}
		for i, want := range plain {
			got := delayed[i]
			want.MessageId, want.Body = got.MessageId, got.Body
			for _, d := range t.differences(want, got) { // CC is a header
				t.errorf("queue %s: %s", in.queue, d)
			}
		}
	}
}
