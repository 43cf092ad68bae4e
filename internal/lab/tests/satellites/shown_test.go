package satellites_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asShown: the function name of this package is what the page of a package shows as its example,
// but for the words of here that stand for words of there. An example's own package may not start a
// broker, so a copy of it is run here.
func asShown(t *testing.T, name, folder, example string, words map[string]string) {
	t.Helper()
	body := func(folder, name string) string {
		files, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), "example_test.go") {
				continue
			}
			source, err := os.ReadFile(folder + "/" + f.Name())
			require.NoError(t, err)
			if _, rest, found := strings.Cut(string(source), "\nfunc "+name+"() {\n"); found {
				text, _, _ := strings.Cut(rest, "\n}\n")
				return text
			}
		}
		t.Fatalf("%s has no example %s", folder, name)
		return ""
	}
	here := body(".", name)
	for word, shown := range words {
		here = regexp.MustCompile(`\b`+word+`\b`).ReplaceAllLiteralString(here, shown)
	}
	require.Equal(t, body("../../../../"+folder, example), here)
}
