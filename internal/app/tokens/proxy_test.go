package tokens

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestProxy(t *testing.T) {
	p, err := Proxy{Header: "x-forwarded-user", From: []string{"10.0.0.5", "192.168.0.0/16", "fd00::1"}, Act: []string{"alice", "*@ops"}}.Open()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		from   string
		values []string
		user   string
		err    error
	}{
		"the proxy":                 {"10.0.0.5:4711", []string{"alice"}, "alice", nil},
		"of a network":              {"192.168.7.9:1", []string{" bob "}, "bob", nil},
		"IPv4 in IPv6":              {"[::ffff:10.0.0.5]:1", []string{"alice"}, "alice", nil},
		"IPv6":                      {"[fd00::1%eth0]:1", []string{"ü"}, "ü", nil},
		"none":                      {"10.0.0.5:1", nil, "", nil},
		"forged":                    {"10.0.0.6:1", []string{"alice"}, "", errElsewhere},
		"forged, of this machine":   {"127.0.0.1:1", []string{"alice"}, "", errElsewhere},
		"forged through the proxy":  {"10.0.0.5:1", []string{"alice", "mallory"}, "", errSeveral},
		"no address":                {"@", []string{"alice"}, "", errElsewhere},
		"too long":                  {"10.0.0.5:1", []string{strings.Repeat("x", longestName+1)}, "", errLong},
		"of no writing system":      {"10.0.0.5:1", []string{"\xff"}, "", errLong},
		"empty, which is no user's": {"10.0.0.5:1", []string{" "}, "", nil},
	} {
		r := &http.Request{RemoteAddr: c.from, Header: http.Header{"X-Forwarded-User": c.values}}
		user, err := p.User(r)
		require.ErrorIs(t, err, c.err, name)
		assert.Equal(t, c.user, user, name)
	}
	assert.True(t, p.Act("alice"))
	assert.True(t, p.Act("carol@ops"))
	assert.False(t, p.Act("bob"))
	assert.False(t, p.Act("alice2"))
}

func TestProxy_Refused(t *testing.T) {
	none, err := Proxy{}.Open()
	require.NoError(t, err)
	assert.Nil(t, none)
	from := []string{"10.0.0.5"}
	for want, p := range map[string]Proxy{
		"serve.http.proxy.header: invalid configuration: there is none": {From: from},
		`"two words" is no header`:                                      {Header: "two words", From: from},
		`"cookie" is no header`:                                         {Header: "cookie", From: from},
		"whoever reaches the page could write":                          {Header: "X-User"},
		"0.0.0.0/0 is every address":                                    {Header: "X-User", From: []string{"0.0.0.0/0"}},
		"serve.http.proxy.from: invalid":                                {Header: "X-User", From: []string{"proxy.example"}},
		"serve.http.proxy.act: invalid configuration: a name is empty":  {Header: "X-User", From: from, Act: []string{""}},
	} {
		_, err := p.Open()
		require.ErrorIs(t, err, delayer.ErrConfig, want)
		require.ErrorContains(t, err, want)
	}
}
