package controller

import (
	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
)

// BundleType is the content type of the bundles in which messages wait with [Slots].
const BundleType = bundle.ContentType

// A Bundle is what is in the body of an AMQP message of that type.
type Bundle struct {
	Messages int  // none: it has Cancels or Postpones, or only what controllers need
	InSlot   bool // it was written to a slot, otherwise to the log
}

// ReadBundle reads such a body, for whoever looks at what waits, or could not be read. The error
// says why it cannot be read.
func ReadBundle(body []byte) (Bundle, error) {
	read, err := bundle.Read(body)
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{InSlot: read.InSlot}
	for i := range read.Records {
		if read.Records[i].Kind == bundle.Message {
			b.Messages++
		}
	}
	return b, nil
}
