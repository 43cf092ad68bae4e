package fixedtiers

import (
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

const (
	maxTiers = 100
	maxTier  = objects.MaxTTL - time.Millisecond // a quorum queue gets a millisecond more
)

// newBlueprint checks a configuration. The broker accepts every topology that passes.
func newBlueprint(cfg Config) (blueprint, engine.Settings, error) {
	s, err := engine.Resolve(cfg.Options, Name)
	if err != nil {
		return blueprint{}, s, err
	}
	cfg = cfg.withDefaults(s.Prefix)
	b := blueprint{
		names: names{cfg.Prefix}, kind: s.QueueType, stage: s.Stage(), owner: s.Prefix, rounding: cfg.Rounding,
		tiers: slices.Sorted(slices.Values(cfg.Tiers)), maxLength: cfg.MaxLength, early: cfg.Overflow == Early,
	}
	// A message for a tier's queue would expire there, and its delivery key would lead it there
	// again.
	s.Reserved = append(s.Reserved, cfg.Prefix)
	s.RefusedHint = b.full
	return b, s, b.check(cfg)
}

// full says what to do about a message that the queue of its tier has refused.
func (b blueprint) full(delay time.Duration) string {
	return fmt.Sprintf("queue %q refuses messages: is it full (max_length: %d), or without a majority of its replicas? Publish again later, or spread the delays over more tiers",
		b.names.queue(b.tiers[b.next(delay)]), b.maxLength)
}

func (b blueprint) check(cfg Config) error {
	if err := message.ValidatePrefix(cfg.Prefix); err != nil {
		return badConfig("prefix", "%v", err)
	}
	switch {
	case len(cfg.Tiers) > maxTiers:
		return badConfig("tiers", "%d tiers are more than %d: use binaryladder, which takes any delay", len(cfg.Tiers), maxTiers)
	case cfg.Rounding != Up && cfg.Rounding != Exact:
		return badConfig("rounding", "%q is neither up nor exact", string(cfg.Rounding))
	case cfg.MaxLength < 1:
		return badConfig("max_length", "%d is not a number of messages, at least 1", cfg.MaxLength)
	case cfg.Overflow != Refuse && cfg.Overflow != Early:
		return badConfig("overflow", "%q is neither refuse nor early", string(cfg.Overflow))
	case b.early && b.kind != delayer.Classic:
		return badConfig("overflow", "early needs queue_type: classic; a %s queue that dead-letters at least once can only refuse", b.kind)
	}
	for i, tier := range b.tiers {
		switch {
		case tier < time.Millisecond || tier%time.Millisecond != 0 || tier > maxTier:
			return badConfig("tiers", "%v is not a whole number of milliseconds from 1ms to ten years: the broker counts in milliseconds", tier)
		case i > 0 && tier == b.tiers[i-1]:
			return badConfig("tiers", "%s is listed twice", objects.DurationName(tier))
		}
	}
	return nil
}

// next returns the number of the tier for a delay. There must be one.
func (b blueprint) next(delay time.Duration) int {
	i, _ := slices.BinarySearch(b.tiers, delay)
	return i
}
