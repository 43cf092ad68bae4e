package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAReportCanBeReadAgain(t *testing.T) {
	var first, second bytes.Buffer
	require.NoError(t, example().WriteJSON(&first))
	report, err := ReadReport(bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.NoError(t, report.WriteJSON(&second))
	assert.Equal(t, first.String(), second.String())
}

func TestReadReportRefusesWhatItDoesNotKnow(t *testing.T) {
	_, err := ReadReport(strings.NewReader("<html>"))
	assert.ErrorContains(t, err, "not a report.json")
	_, err = ReadReport(strings.NewReader("{}"))
	assert.ErrorContains(t, err, "no schema_version")
	assert.NotErrorIs(t, err, ErrSchema)
	_, err = ReadReport(strings.NewReader(`{"schema_version": 99}`))
	require.ErrorIs(t, err, ErrSchema)
	assert.ErrorContains(t, err, "99")
}
