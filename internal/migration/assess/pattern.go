package assess

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/delayer-go/delayer/internal/migration/inventory"
)

// A pattern is a regular expression of the broker's: of a policy, or of permissions.
type pattern struct {
	except *regexp.Regexp // names that it refuses; may be nil
	match  *regexp.Regexp
}

// compile reads a pattern. RabbitMQ's have more than Go's: of what Go lacks, it reads a negative
// lookahead at the start, ^(?!…), as it is written to keep policies from a prefix.
func compile(text string) (pattern, bool) {
	if match, err := regexp.Compile(text); err == nil {
		return pattern{match: match}, true
	}
	rest, found := strings.CutPrefix(text, "^(?!")
	if !found {
		return pattern{}, false
	}
	end := closing(rest)
	if end < 0 {
		return pattern{}, false
	}
	except, err1 := regexp.Compile("^(?:" + rest[:end] + ")")
	match, err2 := regexp.Compile("^(?:" + rest[end+1:] + ")")
	return pattern{except, match}, err1 == nil && err2 == nil
}

// closing is where the group ends that text is in, or -1.
func closing(text string) int {
	depth := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (p pattern) matches(name string) bool {
	return (p.except == nil || !p.except.MatchString(name)) && p.match.MatchString(name)
}

// unseenPatterns names the patterns that cannot be judged.
func unseenPatterns(q Question) []inventory.Unseen {
	var list []inventory.Unseen
	unread := func(what, text string) {
		if _, ok := compile(text); !ok {
			list = append(list, inventory.Unseen{What: what, Why: fmt.Sprintf("its pattern %q is of a kind that is not read here: see for yourself whether it matches", text)})
		}
	}
	for _, p := range q.Policies {
		unread(fmt.Sprintf("the effect of policy %q", p.Name), p.Pattern)
	}
	for _, p := range q.OperatorPolicies {
		unread(fmt.Sprintf("the effect of operator policy %q", p.Name), p.Pattern)
	}
	if q.Permission != nil {
		for _, kind := range kinds(q) {
			unread(fmt.Sprintf("the permission of user %s to %s", q.User, kind.name), kind.granted)
		}
	}
	return list
}
