package tokens

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// Proxy is the section serve.http.proxy of a configuration: who may say by a header which user
// looks at the page.
type Proxy struct {
	// Header is the name of the header. Empty: no proxy is trusted.
	Header string `yaml:"header"`
	// From are the addresses, or networks, that the header is taken from.
	From []string `yaml:"from"`
	// Act are the users who have the right act. * stands for any text. All users have the right
	// view.
	Act []string `yaml:"act"`
}

// A Trusted is a proxy that says who the user is.
type Trusted struct {
	header string
	from   []netip.Prefix
	act    func(name string) bool
}

// Open checks the section. Without a header it returns nil. Errors are ErrConfig.
func (p Proxy) Open() (*Trusted, error) {
	fail := func(key, hint, format string, args ...any) (*Trusted, error) {
		return nil, engine.ConfigError("serve.http.proxy."+key, fmt.Errorf(format, args...), hint)
	}
	t := &Trusted{header: http.CanonicalHeaderKey(p.Header), act: entry.Matches(p.Act)}
	switch {
	case p.Header == "" && len(p.From)+len(p.Act) == 0:
		return nil, nil //nolint:nilnil // none is trusted, which is no error
	case p.Header == "":
		return fail("header", "write header: X-Forwarded-User, or what the proxy sends", "there is none")
	case strings.Trim(t.header, tokenLetters) != "" || slices.Contains([]string{"Authorization", "Cookie", "Host", "Origin"}, t.header):
		return fail("header", "write header: X-Forwarded-User, or what the proxy sends", "%.64q is no header for a user's name", p.Header)
	case len(p.From) == 0:
		return fail("from", "list the addresses of the proxy", "there is none, and whoever reaches the page could write any name")
	case slices.Contains(p.Act, ""):
		return fail("act", "leave it out", "a name is empty")
	}
	for _, text := range p.From {
		network, err := network(text)
		if err != nil {
			return fail("from", "write addresses such as 10.0.0.5, or networks such as 10.0.0.0/24", "%w", err)
		}
		t.from = append(t.from, network)
	}
	return t, nil
}

// tokenLetters are those that names of headers consist of, but for the rare ones.
const tokenLetters = "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// network reads an address, or a network.
func network(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		address = address.Unmap().WithZone("")
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	n, err := netip.ParsePrefix(text)
	if err == nil && n.Bits() == 0 {
		return n, fmt.Errorf("%s is every address, and whoever reaches the page could write any name", text)
	}
	return n.Masked(), err
}

var (
	errElsewhere = errors.New("it comes from an address that is not in serve.http.proxy.from")
	errSeveral   = errors.New("it is there more than once: the proxy must replace what its clients send")
	errLong      = errors.New("it is no name")
)

const longestName = 256

// User is the name that a request's proxy says. "" without an error: there is no such header. With
// an error the header must not be believed.
func (t *Trusted) User(r *http.Request) (string, error) {
	values := r.Header.Values(t.header)
	if len(values) == 0 {
		return "", nil
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	address := from.Addr().Unmap().WithZone("")
	name := strings.TrimSpace(values[0])
	switch {
	case err != nil || !slices.ContainsFunc(t.from, func(n netip.Prefix) bool { return n.Contains(address) }):
		return "", errElsewhere
	case len(values) > 1:
		return "", errSeveral
	case len(name) > longestName || !utf8.ValidString(name):
		return "", errLong
	}
	return name, nil
}

// Act reports whether a user has the right act.
func (t *Trusted) Act(name string) bool { return t.act(name) }
