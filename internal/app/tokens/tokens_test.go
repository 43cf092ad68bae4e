package tokens

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/docs"
)

func sum(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, `
tokens:
  - {name: shop, sha256: `+sum("s3cret")+`, rights: [publish], exchanges: [orders, "billing.*"], queues: [reminders]}
  - {name: operator, sha256: `+strings.ToUpper(sum("other"))+`, rights: [cancel]}
`)
	f, err := Open(path)
	require.NoError(t, err)
	shop := f.Bearer("Bearer s3cret")
	require.NotNil(t, shop)
	assert.Equal(t, "shop", shop.Name)
	assert.True(t, shop.Has(Publish))
	assert.False(t, shop.Has(Cancel))
	for name, may := range map[string]bool{"orders": true, "billing.eu": true, "orders2": false, "my.orders": false, "reminders": false, "": false} {
		assert.Equal(t, may, shop.Exchange(name), name)
	}
	assert.True(t, shop.Queue("reminders"))
	assert.False(t, shop.Queue("orders"))
	operator := f.Bearer("bearer  other")
	require.NotNil(t, operator)
	assert.True(t, operator.Has(Cancel))
	assert.False(t, operator.Exchange("orders"))
	assert.False(t, operator.Queue(""))
	for _, header := range []string{"", "s3cret", "Bearer", "Bearer ", "Bearer wrong", "Basic s3cret", "Bearer " + sum("s3cret")} {
		assert.Nil(t, f.Bearer(header), header)
	}

	write(t, path, "tokens: [{name: shop, sha256: "+sum("new")+", rights: [publish], queues: ['*']}]")
	require.NoError(t, f.Read())
	assert.Nil(t, f.Bearer("Bearer s3cret"))
	require.NotNil(t, f.Bearer("Bearer new"))
	write(t, path, "tokens: [{name: shop")
	require.ErrorContains(t, f.Read(), path+": ")
	assert.NotNil(t, f.Bearer("Bearer new"), "those from before are valid")
	require.NoError(t, os.Remove(path))
	require.ErrorContains(t, f.Read(), "serve.http.tokens")
	assert.NotNil(t, f.Bearer("Bearer new"))
}

func TestParse_Errors(t *testing.T) {
	good := "sha256: " + sum("x")
	for text, want := range map[string]string{
		"":                 "not YAML",
		"{":                "not YAML",
		"[]":               "is not a mapping",
		"token: []":        "unknown key",
		"tokens: [{a: 1}]": "unknown key",
		"tokens: [{" + good + ", rights: [publish], queues: [q]}]":                                       "name is empty",
		"tokens: [{name: a, sha256: hunter2, rights: [publish], queues: [q]}]":                           "write the hash of the token",
		"tokens: [{name: a, sha256: " + sum("x") + "  -, rights: [cancel]}]":                             "leave out the - that sha256sum writes",
		"tokens: [{name: a, sha256: " + sum("") + ", rights: [cancel]}]":                                 "is that of an empty text",
		"tokens: [{name: a, " + good + ", queues: [q]}]":                                                 "rights is empty",
		"tokens: [{name: a, " + good + ", rights: [publish]}]":                                           "belong together",
		"tokens: [{name: a, " + good + ", rights: [cancel], queues: [q]}]":                               "belong together",
		"tokens: [{name: a, " + good + ", rights: [fly], exchanges: [e]}]":                               "belong together",
		"tokens: [{name: a, " + good + ", rights: [publish, fly], exchanges: [e]}]":                      `"fly" is not known (known: [publish cancel view act])`,
		"tokens: [{name: a, " + good + ", rights: [act]}]":                                               "needs the right view",
		"tokens: [{name: a, " + good + ", rights: [publish], exchanges: ['']}]":                          "a name is empty",
		"tokens: [{name: a, " + good + ", rights: [cancel]}, {name: b, " + good + ", rights: [cancel]}]": "there twice",
	} {
		_, err := Parse("tokens.yaml", []byte(text))
		require.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAnybody(t *testing.T) {
	a := Anybody()
	assert.True(t, a.Has(Publish) && a.Has(Cancel) && a.Exchange("x") && a.Queue("q"))
	assert.False(t, a.Exchange(""), "the default exchange is asked for by Queue")
}

// TestParse_Documentation: the example of docs/languages.md is one.
func TestParse_Documentation(t *testing.T) {
	for _, b := range docs.Blocks(docs.Pages(t, "../../..")["docs/languages.md"]) {
		if strings.HasPrefix(b.Text, "tokens:") {
			list, err := Parse("tokens.yaml", []byte(b.Text))
			require.NoError(t, err)
			require.Len(t, list, 2)
			return
		}
	}
	t.Fatal("there is none")
}
