package bundle

import "encoding/binary"

// A Progress tells which records of a bundle are finished: delivered, stored elsewhere or dropped.
// The bundle is not acknowledged, since others are not.
type Progress struct {
	Writer  string
	Number  uint64
	Records int    // of the bundle
	Done    []byte // a bit for each
}

// Is reports whether a record is finished.
func (p *Progress) Is(record int) bool {
	return record/8 < len(p.Done) && p.Done[record/8]&(1<<(record%8)) != 0
}

// Set notes that a record is finished.
func (p *Progress) Set(record int) {
	if p.Done == nil {
		p.Done = make([]byte, p.size())
	}
	p.Done[record/8] |= 1 << (record % 8)
}

func (p *Progress) size() int { return (p.Records + 7) / 8 }

const (
	// maxProgress is how many bundles there may be progress of, and maxDone how many bytes of bits.
	maxProgress, maxDone = 1024, 16 << 10
	// minProgress is the size of the smallest.
	minProgress = 4
)

// appendProgress appends as many as there may be.
func appendProgress(to []byte, all []Progress) []byte {
	n, bytes := 0, 0
	for n < min(len(all), maxProgress) && bytes+all[n].size() <= maxDone {
		bytes += all[n].size()
		n++
	}
	to = binary.AppendUvarint(to, uint64(n))
	for _, p := range all[:n] {
		to = appendText(to, p.Writer)
		to = binary.AppendUvarint(to, p.Number)
		to = binary.AppendUvarint(to, uint64(p.Records))
		to = append(to, p.Done...)
	}
	return to
}

// readProgress reverses appendProgress. It is false for what no leader writes.
func readProgress(from *reader) (all []Progress, is bool) {
	n := from.uvarint()
	if n > maxProgress || n > uint64(len(from.left)/minProgress) {
		return nil, false
	}
	bytes := 0
	for range n {
		p := Progress{Writer: from.text(maxWriter), Number: from.uvarint()}
		records := from.uvarint()
		if records == 0 || records > MaxSize {
			return nil, false
		}
		p.Records = int(records)
		p.Done = from.bytes(uint64(p.size()))
		bytes += p.size()
		all = append(all, p)
	}
	return all, from.left != nil && bytes <= maxDone
}
