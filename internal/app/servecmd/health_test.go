package servecmd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealth_Address(t *testing.T) {
	for given, want := range map[string]string{
		"localhost:8080":                "http://localhost:8080/healthz",
		":8080":                         "http://:8080/healthz",
		"localhost:8080/readyz":         "http://localhost:8080/readyz",
		"https://example.org/x/healthz": "https://example.org/x/healthz",
	} {
		require.Equal(t, want, (&Health{Address: given}).url())
	}
}
