package main

import (
	"context"
	"errors"
)

// migrateAssessCmd is `delayer migrate assess`.
type migrateAssessCmd struct {
	migrateFlags
}

// Run prints the assessment.
func (c *migrateAssessCmd) Run(context.Context, streams) error {
	return failure("migrate assess", errors.New("not written yet"))
}
