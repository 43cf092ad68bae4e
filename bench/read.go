package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrSchema is in the chain of what ReadReport returns for a report of another version.
var ErrSchema = errors.New("another schema version")

// ReadReport reads a report.json. The error says what is wrong with it; it is [ErrSchema] where the
// file is a report, but of a version that this code does not know.
func ReadReport(in io.Reader) (*Report, error) {
	var report Report
	if err := json.NewDecoder(in).Decode(&report); err != nil {
		return nil, fmt.Errorf("not a report.json: %w", err)
	}
	switch report.SchemaVersion {
	case SchemaVersion:
		return &report, nil
	case 0:
		return nil, errors.New("not a report.json: it has no schema_version")
	}
	return nil, fmt.Errorf("%w: %d, and this is a delayer for %d (make the report again, or read it with the delayer that wrote it)",
		ErrSchema, report.SchemaVersion, SchemaVersion)
}
