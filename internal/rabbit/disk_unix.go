//go:build unix

package rabbit

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

func (n *privateNode) disk() (int64, error) { return diskUsage(filepath.Join(n.folder, "data")) }

// diskUsage adds up the blocks of all files below a folder. Files that go meanwhile are left out.
func diskUsage(folder string) (int64, error) {
	const block = 512 // the unit of st_blocks, whatever the file system's
	var sum int64
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				if stat, ok := info.Sys().(*syscall.Stat_t); ok {
					sum += stat.Blocks * block
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}
