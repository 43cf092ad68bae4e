package report

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every field of report.json is described for whoever reads it.
func TestDocumentationNamesEveryField(t *testing.T) {
	text, err := os.ReadFile("../../docs/report.md")
	require.NoError(t, err)
	fields := map[string]bool{}
	jsonFields(reflect.TypeFor[Report](), fields)
	require.Greater(t, len(fields), 40)
	for field := range fields {
		named := strings.Contains(string(text), "`"+field+"`") || strings.Contains(string(text), "."+field+"`")
		assert.True(t, named, "docs/report.md does not name %s", field)
	}
}

func jsonFields(of reflect.Type, into map[string]bool) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return
	}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name != "" {
			into[name] = true
		}
		jsonFields(field.Type, into)
	}
}
