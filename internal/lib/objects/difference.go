package objects

import (
	"fmt"
	"strings"
)

// A Difference is one thing that a broker holds otherwise than a plan says.
type Difference struct {
	Kind   DifferenceKind
	Object string // as in: queue "delayer.discard"
	Detail string
	Late   bool // a policy that makes messages late and does no other harm
}

// DifferenceKind says what is different.
type DifferenceKind string

// The kinds of differences.
const (
	IsMissing DifferenceKind = "missing"
	IsOther   DifferenceKind = "differs" // another type, or other arguments
	IsSurplus DifferenceKind = "surplus" // a binding that no Delayer has made
	IsHarmed  DifferenceKind = "policy"  // a policy does harm
)

// String is a sentence.
func (d Difference) String() string { return d.Object + ": " + d.Detail }

// Summary lists the first few differences as sentences: one policy may harm every queue.
func Summary(list []Difference) string {
	const most = 3
	var says []string
	for _, d := range list[:min(most, len(list))] {
		says = append(says, d.String())
	}
	if more := len(list) - most; more > 0 {
		says = append(says, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(says, "; ")
}
