package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead_WhatWasWritten(t *testing.T) {
	var first, second bytes.Buffer
	require.NoError(t, example().WriteJSON(&first))
	report, err := Read(bytes.NewReader(first.Bytes()))
	require.NoError(t, err)
	require.NoError(t, report.WriteJSON(&second))
	assert.Equal(t, first.String(), second.String())
}

func TestRead_Refuses(t *testing.T) {
	_, err := Read(strings.NewReader("<html>"))
	assert.ErrorContains(t, err, "not a report.json")
	_, err = Read(strings.NewReader("{}"))
	assert.ErrorContains(t, err, "no schema_version")
	_, err = Read(strings.NewReader(`{"schema_version": 99}`))
	assert.ErrorContains(t, err, "another schema version: 99")
}
